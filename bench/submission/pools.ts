/** The pools of the command line, on the database of the benchmark. */
import { Layer } from "effect"
import { Database } from "../../src/node/postgres/Database.ts"
import type { DatabaseAddress } from "../shared/processes.ts"

export const databaseAt = ({ database, port, socketDirectory, username }: DatabaseAddress) =>
  Layer.succeed(Database, {
    isEmbedded: false,
    dataDirectory: null,
    connection: { host: socketDirectory, port, username, database }
  })
