// Asks a dataset from Java through the PostgreSQL port.
// Run: java -cp /usr/share/java/postgresql.jar examples/clients/Ask.java HOST:PORT USER TOKEN visits ward 0.25 A3

import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

public class Ask {
    public static void main(String[] words) throws SQLException {
        String dataset = words[3], column = words[4], epsilon = words[5], excluded = words[6];
        String url = "jdbc:postgresql://" + words[0] + "/blowfish";
        try (Connection port = DriverManager.getConnection(url, words[1], words[2])) {
            describe(port.getMetaData(), dataset);
            String question = "SELECT " + column + ", COUNT(*) AS n FROM " + dataset + " WHERE " + column
                    + " <> ? GROUP BY 1 OPTIONS (epsilon = " + epsilon + ")";
            try (Statement settings = port.createStatement()) {
                settings.execute("SET blowfish.intervals = on");
            }
            try {
                print(port, question, excluded);
            } catch (SQLException refusal) {
                System.out.println("refused " + refusal.getSQLState() + ": " + refusal.getMessage());
                try (Statement settings = port.createStatement()) {
                    settings.execute("SET blowfish.spend = '" + epsilon + "'");
                }
            }
            // The driver prepares a statement on the server once it was run a few times; all but the first are free.
            // Inside a transaction it fetches the rows in pieces, one at a time here.
            for (int time = 0; time < 8; time++) {
                port.setAutoCommit(time < 4);
                print(port, question, excluded);
            }
            port.commit();
        }
    }

    /** What tools such as DBeaver and Tableau ask when a table is opened. */
    private static void describe(DatabaseMetaData catalog, String dataset) throws SQLException {
        System.out.println(catalog.getDatabaseProductName() + ", driver " + catalog.getDriverVersion());
        try (ResultSet table = catalog.getTables(null, null, "%", new String[] {"TABLE"})) {
            while (table.next()) {
                System.out.println("table " + table.getString("TABLE_SCHEM") + "." + table.getString("TABLE_NAME"));
            }
        }
        try (ResultSet part = catalog.getColumns(null, "public", dataset, "%")) {
            while (part.next()) {
                System.out.println("column " + part.getString("COLUMN_NAME") + " " + part.getString("TYPE_NAME")
                        + ": " + part.getString("REMARKS"));
            }
        }
        ResultSet[] none = {
            catalog.getPrimaryKeys(null, "public", dataset),
            catalog.getImportedKeys(null, "public", dataset),
            catalog.getIndexInfo(null, "public", dataset, false, true)
        };
        for (ResultSet keys : none) {
            System.out.println("keys " + keys.next());
        }
    }

    private static void print(Connection port, String question, String excluded) throws SQLException {
        try (PreparedStatement statement = port.prepareStatement(question)) {
            statement.setString(1, excluded);
            statement.setFetchSize(1);
            try (ResultSet row = statement.executeQuery()) {
                while (row.next()) {
                    System.out.println(row.getString(1) + " " + row.getDouble("n") + " in ["
                            + row.getDouble("n_low") + ", " + row.getDouble("n_high") + "]");
                }
            }
            System.out.println(statement.getWarnings().getMessage());
        }
    }
}
