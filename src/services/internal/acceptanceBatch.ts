/**
 * How much `acceptAll` records in one statement.
 */

/**
 * Most requests of one statement. The time of larger batches no longer falls, and the grant stays locked while the statement
 * runs.
 */
export const maxBatchRequests = 500

/** Most bytes of sealed payloads in one statement: 4 MiB. They pass through the memory of the process and of the database. */
export const maxBatchBytes = 4_194_304
