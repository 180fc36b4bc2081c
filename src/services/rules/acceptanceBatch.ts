/**
 * How much `acceptAll` records in one statement.
 */

/**
 * Most requests of one statement. Larger batches cost no less for each request, and grant and keys stay locked while the
 * statement runs: a tenth of a second.
 */
export const maxBatchRequests = 500

/** Most bytes of sealed payloads in one statement: 4 MiB. They pass through the memory of the process and of the database. */
export const maxBatchBytes = 4_194_304
