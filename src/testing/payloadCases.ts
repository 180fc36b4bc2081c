/**
 * The cases of the conformance kit for `payloads`. The schema of a payload refuses at the acceptance what the adapter cannot send.
 */
import * as Effect from "effect/Effect"
import type { PayloadSchemas } from "../domain/PayloadSchemas.ts"
import { closedBank } from "./ContractBank.ts"
import type { ContractCase, Kit } from "./ContractCase.ts"
import { ContractViolation } from "./contractRules.ts"
import { declaredPayloads, whyRefused } from "./ContractScene.ts"

/** A case that reads the declared payloads, and returns the broken rule or null. */
const payloadCase = (
  kit: Kit,
  rule: string,
  judge: (payloads: PayloadSchemas | undefined) => Effect.Effect<string | null>
): ContractCase => {
  const name = `payloads: ${rule}`
  const declared = Effect.flatMap(closedBank(kit.otherRequests), (bank) => declaredPayloads(kit.subject, bank))
  return {
    name,
    run: Effect.flatMap(
      Effect.flatMap(declared, judge),
      (broken) =>
        broken === null ? Effect.void : Effect.fail(new ContractViolation({ message: `${name}\n  rule: ${broken}` }))
    )
  }
}

/** All cases for `payloads`. */
export const payloadCases = (kit: Kit): ReadonlyArray<ContractCase> => {
  const { invalidPayload, subject: { operation: { type }, payload } } = kit
  const accepts = payloadCase(
    kit,
    "the adapter can send the payload of the kit",
    (payloads) =>
      Effect.map(whyRefused(payloads, type, payload), (reason) =>
        reason === null
          ? null
          : `The schema of the adapter must accept \`payload\`. No case of submit runs until it does. ${reason}`)
  )
  if (invalidPayload === undefined) return [accepts]
  const refuses = payloadCase(
    kit,
    "the declared schema refuses the invalid payload",
    (payloads) =>
      payloads === undefined
        ? Effect.succeed(`The adapter must declare a payload for the type ${type}`)
        : Effect.map(
          whyRefused(payloads, type, invalidPayload),
          (reason) => reason === null ? "The schema must refuse the invalid payload" : null
        )
  )
  return [accepts, refuses]
}
