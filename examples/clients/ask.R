# Asks a dataset from R through the PostgreSQL port.
# Run: PGHOST=127.0.0.1 PGPORT=5433 PGUSER=ana PGPASSWORD=bfdb_... Rscript examples/clients/ask.R visits ward 0.25
library(DBI)
words <- commandArgs(trailingOnly = TRUE)
server <- Sys.getenv(c("PGHOST", "PGPORT", "PGUSER", "PGPASSWORD"))
port <- dbConnect(RPostgreSQL::PostgreSQL(), host = server[[1]], port = as.integer(server[[2]]),
                  user = server[[3]], password = server[[4]], dbname = "blowfish")
cat("datasets:", dbListTables(port), "\n")
cat("columns:", dbListFields(port, words[1]), "\n")

# A new connection may spend nothing: this line allows one question.
invisible(dbExecute(port, sprintf("SET blowfish.spend = '%s'", words[3])))
counts <- dbGetQuery(port, sprintf("SELECT %s, COUNT(*) AS n FROM %s GROUP BY 1 OPTIONS (epsilon = %s)",
                                   words[2], words[1], words[3]))
write.csv(counts, row.names = FALSE)
invisible(dbDisconnect(port))
