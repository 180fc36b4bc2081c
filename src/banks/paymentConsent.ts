/**
 * Consents by which a payer authorises one payment, for banks that have no read by the key: after a lost answer the consent tells whether a
 * payment was ordered under it.
 */
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import { type ProviderPromises, StatusAnswer } from "../submission/providers/ProviderAdapter.ts"
import { signatureAge } from "./messageSignatures.ts"

/**
 * What a bank documents about the end of a consent. Give it only if the bank also documents that a used consent stays used: otherwise a
 * consent that was used and then expired would look unused.
 */
export interface ConsentEnds {
  /** The bank refuses a payment after the cut-off time of its consent. Default: it may carry it out on the next day. */
  readonly refusesAfterCutOff?: boolean
  /** The bank refuses a payment so long after the creation of its consent. */
  readonly lifetime?: Duration.Input
  /** How long after that a payment may still be invisible. Add the greatest difference between the clocks of bank and database. */
  readonly visibleAfter: Duration.Input
}

/**
 * The promises about reads by the consent, whose answers are signed. Without `ends` an unused consent never proves that nothing was ordered.
 * Throws a `TypeError` if its lifetime would end a consent that the bank still takes.
 */
export const consentPromises = (ends: ConsentEnds | undefined): ProviderPromises => {
  for (const name of ["lifetime", "visibleAfter"] as const) {
    if (ends?.[name] === undefined) continue
    const duration = Option.getOrElse(Duration.fromInput(ends[name]), () => Duration.zero)
    if (!Duration.isFinite(duration) || !Duration.isPositive(duration)) {
      throw new TypeError(`consentEnds.${name} must be a finite duration longer than 0, as the bank documents it`)
    }
  }
  return {
    readByOperationId: "indirectly",
    ...ends === undefined ? {} : {
      lateRequests: "refused_as_stated",
      notFoundIsFinalAfter: Duration.sum(Duration.fromInputUnsafe(ends.visibleAfter), Duration.millis(signatureAge))
    }
  }
}

/** A consent, as the bank shows it. */
interface ShownConsent {
  readonly id: string
  /** The bank's word for its status. */
  readonly status: string
  /** A payment was ordered under it. */
  readonly isUsed: boolean
  readonly createdAt: DateTime.Utc
  /** From when on it is refused for ever. Null: it is not. */
  readonly endedAt: DateTime.Utc | null
  readonly cutOff: DateTime.Utc | undefined
  /** The operation that the answer names. */
  readonly operationId: string | null
  /** What a person asks the bank about a used consent. */
  readonly question: string
}

/** From when on the bank refuses a payment under the consent, if that is known. */
const refusedFrom = ({ createdAt, cutOff, endedAt }: ShownConsent, ends: ConsentEnds | undefined) => {
  const all = [
    ...endedAt === null ? [] : [endedAt],
    ...ends?.refusesAfterCutOff === true && cutOff !== undefined ? [cutOff] : [],
    ...ends?.lifetime === undefined ? [] : [DateTime.addDuration(createdAt, ends.lifetime)]
  ]
  return all.length === 0 ? null : all.reduce(DateTime.min)
}

/** What a status read proves that shows the consent. `evidence` are the status of the answer, and the members of its body that count. */
export const readOfConsent = (
  consent: ShownConsent,
  ends: ConsentEnds | undefined,
  evidence: { readonly status: number; readonly body: Schema.Json }
): StatusAnswer => {
  if (consent.isUsed) {
    return StatusAnswer.NotProven({
      reason: "ordered",
      detail: `the consent is used (${consent.status}), so a payment was ordered under it`,
      question: consent.question
    })
  }
  const from = refusedFrom(consent, ends)
  return StatusAnswer.NotFound({
    names: { reference: null, operation_id: consent.operationId },
    evidence: { ...evidence, refused_from: from === null ? null : DateTime.formatIso(from) },
    ...from === null ? {} : { refusedFrom: from }
  })
}
