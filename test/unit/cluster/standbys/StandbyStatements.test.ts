/** A standby may run the statements that read operations. Only the primary runs those of the change feed and of waiting requests. */
import { assert, describe, it } from "@effect/vitest"
import { forStandby } from "../../../../src/cluster/standbys/StandbyReads.ts"
import { ClientId, GrantId, type GrantIdentity, PairwiseSubject } from "../../../../src/domain/Grant.ts"
import { IdempotencyKey } from "../../../../src/domain/Idempotency.ts"
import { OperationId } from "../../../../src/domain/Operation.ts"
import type { OperationQuery } from "../../../../src/domain/OperationQuery.ts"
import { startOfLedger } from "../../../../src/services/rules/changeToken.ts"
import { changesOfGrant, changesOfLedger, lastChange } from "../../../../src/services/sql/reads/changeStatements.ts"
import { onPrimary, onPrimaryOrStandby } from "../../../../src/services/sql/reads/readStatements.ts"
import { findById, listStatement, refusedStatement } from "../../../../src/services/sql/reads/readStatements.ts"

const id = "018f0000-0000-7000-8000-000000000000"

const grant: GrantIdentity = {
  grant_id: GrantId.make(id),
  client_id: ClientId.make("client"),
  subject: PairwiseSubject.make("subject")
}

const everything: OperationQuery = {
  states: [],
  type: null,
  key: null,
  created_after: null,
  created_before: null,
  page_size: 20,
  after: null
}

describe("A standby", () => {
  it("has a form of each statement that reads operations, which a primary refuses", () => {
    for (
      const { text } of [
        findById(grant, OperationId.make(id)),
        listStatement(grant, everything),
        listStatement(grant, { ...everything, states: ["accepted"] }),
        listStatement(grant, { ...everything, key: IdempotencyKey.make("key") })
      ]
    ) {
      const standbys = forStandby(text)
      assert.isNotNull(standbys)
      assert.include(standbys, "pg_is_wal_replay_paused()")
      assert.notInclude(standbys, "pg_current_wal_insert_lsn")
      // A session of the primary gets the text as it is.
      assert.include(text, onPrimaryOrStandby)
    }
  })

  it("has none of the statements of the change feed and of waiting requests", () => {
    const query = { states: [], type: null, page_size: 20, after: null }
    for (
      const text of [
        changesOfGrant(grant, startOfLedger, query).text,
        changesOfLedger(startOfLedger, 20).text,
        lastChange,
        refusedStatement
      ]
    ) {
      assert.isNull(forStandby(text))
      assert.include(text, onPrimary)
    }
  })
})
