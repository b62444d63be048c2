"""Asks a dataset as LibreOffice Base does: its own PostgreSQL driver, run in a LibreOffice without a window.

Run it with the system's Python, for which Debian has python3-uno and libreoffice-sdbc-postgresql:
    /usr/bin/python3 examples/clients/libreoffice_base.py 127.0.0.1 5433 ana bfdb_... visits ward 0.25
In Base itself: File, New, Database, connect to an existing PostgreSQL, "host=127.0.0.1 port=5433 dbname=blowfish".
"""

import subprocess
import sys
import tempfile
import time
from typing import Any

import uno
from com.sun.star.beans import PropertyValue
from com.sun.star.connection import NoConnectException

PIPE = "blowfish-example"


def connected(host: str, port: str, user: str, token: str) -> Any:
    """A connection of the driver that Base uses."""
    here = uno.getComponentContext()
    resolver = here.ServiceManager.createInstanceWithContext("com.sun.star.bridge.UnoUrlResolver", here)
    for _ in range(240):
        try:
            office = resolver.resolve(f"uno:pipe,name={PIPE};urp;StarOffice.ComponentContext")
            break
        except NoConnectException:
            time.sleep(0.5)
    drivers = office.ServiceManager.createInstanceWithContext("com.sun.star.sdbc.DriverManager", office)
    who = (PropertyValue(Name="user", Value=user), PropertyValue(Name="password", Value=token))
    return drivers.getConnectionWithInfo(f"sdbc:postgresql:host={host} port={port} dbname=blowfish", who)


def ask(connection: Any, dataset: str, column: str, epsilon: str) -> None:
    """Prints columns and counts."""
    columns = connection.getMetaData().getColumns(None, "public", dataset, "%")
    while columns.next():
        print("column", columns.getString(4), columns.getString(6))
    statement = connection.createStatement()
    statement.execute(f"SET blowfish.spend = '{epsilon}'")
    rows = statement.executeQuery(f"SELECT {column}, COUNT(*) FROM {dataset} GROUP BY 1 OPTIONS (epsilon = {epsilon})")
    while rows.next():
        print(rows.getString(1), rows.getDouble(2))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as profile:
        options = ["--headless", "--norestore", "--nologo", f"--accept=pipe,name={PIPE};urp"]
        office = subprocess.Popen(["soffice", *options, f"-env:UserInstallation=file://{profile}"])
        try:
            connection = connected(*sys.argv[1:5])
            ask(connection, *sys.argv[5:8])
            connection.close()
        finally:
            office.terminate()
            office.wait()
