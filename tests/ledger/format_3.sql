-- A ledger as format 3 left it: its mark had no name yet. Frozen: later formats must still open it.
BEGIN TRANSACTION;
CREATE TABLE account (
        id TEXT PRIMARY KEY,
        identity TEXT NOT NULL,
        limit_top TEXT NOT NULL,
        limit_bottom TEXT NOT NULL,
        spent_units TEXT NOT NULL,
        spent_grid TEXT NOT NULL,
        analyst_limit_top TEXT,
        analyst_limit_bottom TEXT,
        charges INTEGER NOT NULL,
        policy_version INTEGER NOT NULL,
        domain_version INTEGER NOT NULL,
        snapshot INTEGER NOT NULL
    , accounting TEXT NOT NULL DEFAULT 'sum', edge_books TEXT);
INSERT INTO "account" VALUES('7ef67b52b09cee06776390b3133013d6','duckdb:census.duckdb#people','2','1','2911361953500000000000','5822723907000000000000','1','2',2,2,1,2,'sum',NULL);
CREATE TABLE analyst (
        account TEXT NOT NULL REFERENCES account (id),
        name TEXT NOT NULL,
        spent_units TEXT NOT NULL,
        spent_grid TEXT NOT NULL,
        limit_top TEXT,
        limit_bottom TEXT,
        is_individual INTEGER NOT NULL, edge_books TEXT,
        PRIMARY KEY (account, name)
    );
INSERT INTO "analyst" VALUES('7ef67b52b09cee06776390b3133013d6','ana','2911361953500000000000','5822723907000000000000','1','2',0,NULL);
INSERT INTO "analyst" VALUES('7ef67b52b09cee06776390b3133013d6','bob','0','5822723907000000000000','3','4',1,NULL);
CREATE TABLE answer (
        charge INTEGER PRIMARY KEY REFERENCES entry (sequence),
        entry INTEGER NOT NULL REFERENCES entry (sequence),
        payload BLOB NOT NULL
    );
INSERT INTO "answer" VALUES(3,4,X'6E6F697379');
CREATE TABLE entry (
        sequence INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        account TEXT REFERENCES account (id),
        analyst TEXT,
        charge_key TEXT,
        request_digest TEXT,
        body TEXT NOT NULL,
        previous_hash TEXT NOT NULL,
        hash TEXT NOT NULL,
        UNIQUE (account, analyst, charge_key)
    );
INSERT INTO "entry" VALUES(1,'account','7ef67b52b09cee06776390b3133013d6',NULL,NULL,NULL,'{"account":"7ef67b52b09cee06776390b3133013d6","analyst_limit":"1/2","at":"2026-11-16T03:35:26.863+00:00","by":"cora","domain":"{\"age\": 1}","identity":"duckdb:census.duckdb#people","kind":"account","limit":"1","policy":"{}","reason":null}','6b961a6c16be32a3ef25dd660032073b7ea33c24b99346c07b3514cc98378c7a','fa720964c5a08082c81489373ce0e109721600c5376d8c7be9ce6fd94ed22b7e');
INSERT INTO "entry" VALUES(2,'name','7ef67b52b09cee06776390b3133013d6',NULL,NULL,NULL,'{"account":"7ef67b52b09cee06776390b3133013d6","at":"2026-11-16T03:35:26.863+00:00","by":"cora","kind":"name","name":"census","reason":null}','fa720964c5a08082c81489373ce0e109721600c5376d8c7be9ce6fd94ed22b7e','3f950c9c9c1f581dc74dc19d6fa4a8c443660841756c07b6c2d5b2293d9c7f12');
INSERT INTO "entry" VALUES(3,'charge','7ef67b52b09cee06776390b3133013d6','ana','a','request-a','{"account":"7ef67b52b09cee06776390b3133013d6","analyst":"ana","at":"2026-11-16T03:35:26.876+00:00","certificate":"{\"edge\":[0,1]}","domain_version":1,"epsilon":"1/5","key":"a","kind":"charge","policy_version":1,"program_digest":"program-a","request_digest":"request-a","snapshot":1}','3f950c9c9c1f581dc74dc19d6fa4a8c443660841756c07b6c2d5b2293d9c7f12','265bac8c21c8aaaf0d62fbb758ac82f444b43517244e50e06bde80ea0f8b7674');
INSERT INTO "entry" VALUES(4,'answer','7ef67b52b09cee06776390b3133013d6',NULL,NULL,NULL,'{"account":"7ef67b52b09cee06776390b3133013d6","at":"2026-11-16T03:35:26.885+00:00","charge":3,"charge_hash":"265bac8c21c8aaaf0d62fbb758ac82f444b43517244e50e06bde80ea0f8b7674","kind":"answer","payload_digest":"acd6beff7c3430bfed5d69f86c5c9e6a32ad2a27a2c2a1e8763ce08f6c3da5ec"}','265bac8c21c8aaaf0d62fbb758ac82f444b43517244e50e06bde80ea0f8b7674','bad291fd29249f199bb7463b419e084a61e29d4a71f8853c9b01efe61e94240c');
INSERT INTO "entry" VALUES(5,'analyst-limit','7ef67b52b09cee06776390b3133013d6',NULL,NULL,NULL,'{"account":"7ef67b52b09cee06776390b3133013d6","analyst":"bob","at":"2026-11-16T03:35:26.892+00:00","by":"cora","kind":"analyst-limit","limit":"3/4","reason":"more"}','bad291fd29249f199bb7463b419e084a61e29d4a71f8853c9b01efe61e94240c','106769bfdf0abb7eb46c2a002d740a4c863133d5aad3c94b62e912be8df1c56f');
INSERT INTO "entry" VALUES(6,'renewal','7ef67b52b09cee06776390b3133013d6',NULL,NULL,NULL,'{"account":"7ef67b52b09cee06776390b3133013d6","at":"2026-11-16T03:35:26.900+00:00","by":"cora","kind":"renewal","limit":"2","reason":"board","was":"1"}','106769bfdf0abb7eb46c2a002d740a4c863133d5aad3c94b62e912be8df1c56f','397a3ab12c0806295c93bfe592001d2b00f9393f0b1eb4e78dcc8567b1ae7096');
INSERT INTO "entry" VALUES(7,'version','7ef67b52b09cee06776390b3133013d6',NULL,NULL,NULL,'{"account":"7ef67b52b09cee06776390b3133013d6","at":"2026-11-16T03:35:26.908+00:00","by":"cora","document":"[1]","document_digest":"080a9ed428559ef602668b4c00f114f1a11c3f6b02a435f0bdc154578e4d7f22","kind":"version","reason":"wider","stretch":"2","version":2,"what":"policy"}','397a3ab12c0806295c93bfe592001d2b00f9393f0b1eb4e78dcc8567b1ae7096','ffa545b2ed5c46c60157a28cf4ec0f88ca8aa990acb37a72d932a78edaa213d8');
INSERT INTO "entry" VALUES(8,'snapshot','7ef67b52b09cee06776390b3133013d6',NULL,NULL,NULL,'{"account":"7ef67b52b09cee06776390b3133013d6","at":"2026-11-16T03:35:26.912+00:00","by":"cora","description":"May","kind":"snapshot","reason":null,"snapshot":2}','ffa545b2ed5c46c60157a28cf4ec0f88ca8aa990acb37a72d932a78edaa213d8','5cd540ade2b58b0441d0efe5487f115db2de05679e8ac0fb868af1ae73cf311c');
INSERT INTO "entry" VALUES(9,'charge','7ef67b52b09cee06776390b3133013d6','ana','b','request-b','{"account":"7ef67b52b09cee06776390b3133013d6","analyst":"ana","at":"2026-11-16T03:35:26.924+00:00","certificate":"{\"edge\":[0,1]}","domain_version":1,"epsilon":"1/10","key":"b","kind":"charge","policy_version":2,"program_digest":"program-b","request_digest":"request-b","snapshot":2}','5cd540ade2b58b0441d0efe5487f115db2de05679e8ac0fb868af1ae73cf311c','de0647298f4f2f3fe7b703409ff7d2f42312c2b1222775f7aef321f3681c49c3');
CREATE TABLE head (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        ledger TEXT NOT NULL,
        sequence INTEGER NOT NULL,
        hash TEXT NOT NULL
    );
INSERT INTO "head" VALUES(1,'467e9e3ebfb996e4acf7e947d9aac716',9,'de0647298f4f2f3fe7b703409ff7d2f42312c2b1222775f7aef321f3681c49c3');
CREATE TABLE label (
        account TEXT NOT NULL REFERENCES account (id),
        name TEXT NOT NULL,
        PRIMARY KEY (account, name)
    );
INSERT INTO "label" VALUES('7ef67b52b09cee06776390b3133013d6','census');
CREATE TABLE version (
        account TEXT NOT NULL REFERENCES account (id),
        kind TEXT NOT NULL,
        number INTEGER NOT NULL,
        document TEXT NOT NULL,
        PRIMARY KEY (account, kind, number)
    );
INSERT INTO "version" VALUES('7ef67b52b09cee06776390b3133013d6','policy',1,'{}');
INSERT INTO "version" VALUES('7ef67b52b09cee06776390b3133013d6','domain',1,'{"age": 1}');
INSERT INTO "version" VALUES('7ef67b52b09cee06776390b3133013d6','policy',2,'[1]');
CREATE INDEX entry_by_request ON entry (account, request_digest);
COMMIT;
PRAGMA application_id = 1112297303;
PRAGMA user_version = 3;
