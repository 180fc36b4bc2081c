/**
 * The roles that the gateway serves with cannot write: every statement of theirs that changes something is a function of the owner.
 */
import { assert, describe, it } from "@effect/vitest"
import { closedTables, proofTables, roles } from "../../../../src/services/sql/roles.ts"

const verbsOf = (tables: (typeof roles)["reader"]["tables"]) =>
  Object.entries(tables).flatMap(([table, privileges]) => Object.keys(privileges).map((verb) => `${verb} ${table}`))

describe("The roles of the gateway", () => {
  it("that serve requests only read, apart from the DPoP proofs", () => {
    for (const role of [roles.reader, roles.provisioner]) {
      assert.deepStrictEqual(verbsOf(role.tables).filter((verb) => !verb.startsWith("SELECT ")), [])
    }
    assert.deepStrictEqual(Object.keys(proofTables), ["dpop_proofs"])
    assert.deepStrictEqual([...roles.reader.functions, ...roles.provisioner.functions].toSorted(), [
      "provision_grant",
      "provision_limited_grant",
      // It sums amounts that the role may not read.
      "remaining_limits",
      "replication_gap",
      "replication_gap",
      "write_confirmation",
      "write_confirmation"
    ])
  })

  it("never delete anything but rows that expire, and have no tables of the owner", () => {
    assert.sameMembers(verbsOf(roles.writer.tables).filter((verb) => verb.startsWith("DELETE ")), [
      "DELETE claim_batches",
      "DELETE reversal_reads",
      "DELETE worker_reports"
    ])
    for (const role of Object.values(roles)) {
      for (const table of closedTables) assert.notProperty(role.tables, table)
    }
  })

  it("leave what the database chooses of a record to it: no role inserts that", () => {
    const chosen = {
      operator_actions: ["id", "at"],
      operation_reversals: ["recorded_at", "limited_grant"],
      grants: ["created_at", "revoked_at"],
      token_keys: ["key"]
    }
    for (const role of Object.values(roles)) {
      for (const [table, columns] of Object.entries(chosen)) {
        const inserted = role.tables[table]?.INSERT ?? []
        for (const column of columns) assert.isFalse(inserted === "all" || inserted.includes(column), table)
      }
    }
  })
})
