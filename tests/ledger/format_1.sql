-- A ledger as format 1 left it: no stored answers yet. Frozen: later formats must still open it.
PRAGMA application_id = 1112297303;
PRAGMA user_version = 1;
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
    );
INSERT INTO "account" VALUES('7ef67b52b09cee06776390b3133013d6','duckdb:census.duckdb#people','2','1','1940907969000000000000','5822723907000000000000',NULL,NULL,1,1,1,1);
CREATE TABLE analyst (
        account TEXT NOT NULL REFERENCES account (id),
        name TEXT NOT NULL,
        spent_units TEXT NOT NULL,
        spent_grid TEXT NOT NULL,
        limit_top TEXT,
        limit_bottom TEXT,
        is_individual INTEGER NOT NULL,
        PRIMARY KEY (account, name)
    );
INSERT INTO "analyst" VALUES('7ef67b52b09cee06776390b3133013d6','ana','1940907969000000000000','5822723907000000000000',NULL,NULL,0);
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
INSERT INTO "entry" VALUES(1,'account','7ef67b52b09cee06776390b3133013d6',NULL,NULL,NULL,'{"account":"7ef67b52b09cee06776390b3133013d6","analyst_limit":null,"at":"2026-01-02T03:04:05.000+00:00","by":"cora","domain":"{\"age\": 1}","identity":"duckdb:census.duckdb#people","kind":"account","limit":"2","policy":"{}","reason":null}','f26a7cab65936fa0963f3225748ab20071e4ed82171f0778e5b22cdbaf35b1c4','79d48b0db34e38f232a9e4a3191dc6d503279a50ae3a65122bf67a92813fe2da');
INSERT INTO "entry" VALUES(2,'name','7ef67b52b09cee06776390b3133013d6',NULL,NULL,NULL,'{"account":"7ef67b52b09cee06776390b3133013d6","at":"2026-01-02T03:04:05.000+00:00","by":"cora","kind":"name","name":"census","reason":null}','79d48b0db34e38f232a9e4a3191dc6d503279a50ae3a65122bf67a92813fe2da','1e6f727b0098e95da5c8b7c17537a7aa5317c97d8bacb1f9a8c90d5cd0454038');
INSERT INTO "entry" VALUES(3,'charge','7ef67b52b09cee06776390b3133013d6','ana','old','request-old','{"account":"7ef67b52b09cee06776390b3133013d6","analyst":"ana","at":"2026-01-02T03:04:05.000+00:00","certificate":"{\"edge\":[0,1]}","domain_version":1,"epsilon":"1/3","key":"old","kind":"charge","policy_version":1,"program_digest":"program-old","request_digest":"request-old","snapshot":1}','1e6f727b0098e95da5c8b7c17537a7aa5317c97d8bacb1f9a8c90d5cd0454038','4c47580185f2219347eba1f23b8b9814bfb1feb806166baf9bb609a3550a8642');
CREATE TABLE head (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        ledger TEXT NOT NULL,
        sequence INTEGER NOT NULL,
        hash TEXT NOT NULL
    );
INSERT INTO "head" VALUES(1,'72abe9e8e592179357b4c691f981c511',3,'4c47580185f2219347eba1f23b8b9814bfb1feb806166baf9bb609a3550a8642');
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
COMMIT;
