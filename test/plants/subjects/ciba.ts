/** Mistakes in decisions by CIBA: an answer that the owner did not give counts. */
import { type Plant, plant, system, unit } from "../Plant.ts"

const service = "src/ciba/CibaApprovals.ts"
const protocol = "src/ciba/BackchannelAuthentication.ts"
const forged = [system("ciba/CibaApprovals", "refuses forged answers")]
const notified = [system("ciba/CibaApprovals", "takes a notification")]

export const ciba: ReadonlyArray<Plant> = [
  plant("the person that the ID token proves decides, not the one who was asked", service)
    .edit(
      "approvals.decide(decisionBy(owner, \"approved\"))",
      "approvals.decide(decisionBy(approval.resource_owner, \"approved\"))"
    )
    .foundBy(...forged),
  plant("an ID token needs a signature of the provider", protocol)
    .edit("await oauth.validateApplicationLevelSignature(to, response, { ...options, [oauth.jwksCache]: keys })", "")
    .foundBy(...forged),
  plant("an ID token answers one question", protocol)
    .edit("if (used.has(idToken))", "if (used.size < 0)")
    .foundBy(...forged),
  plant("an ID token is not older than its question", protocol)
    .edit("claims.iat < askedAt - clockTolerance", "claims.iat < 0")
    .foundBy(...forged),
  plant("an ID token that names a question answers no other one", protocol)
    .edit("request !== undefined && request !== authReqId", "request === \"\"")
    .foundBy(...forged),
  plant("an ID token names a demanded way to authenticate", protocol)
    .edit("acrValues.length > 0 && !acrValues", "acrValues.length > 9 && !acrValues")
    .foundBy(...forged),
  plant("a refusal of the person denies", service)
    .edit(
      "approvals.decide(decisionBy(approval.resource_owner, \"denied\"))",
      "approvals.decide(decisionBy(approval.resource_owner, \"approved\"))"
    )
    .foundBy(system("ciba/CibaApprovals", "denies as the owner")),
  plant("the provider asks no longer than the approval waits", service)
    .edit("requestedExpiry: left,", "requestedExpiry: left * 2,")
    .foundBy(system("ciba/CibaApprovals", "approves as the owner")),
  plant("polls slow down when the provider says so", service)
    .edit("interval += slowDown", "interval += 0")
    .foundBy(system("ciba/CibaApprovals", "polls no faster")),
  plant("polls end once the approval is decided", service)
    .edit("if (!(yield* isPending(id))) return", "if (notified !== null && !(yield* isPending(id))) return")
    .foundBy(system("ciba/CibaApprovals", "asks no longer once an operator has decided")),
  plant("a question that awaits a notification ends once the approval is decided", service)
    .edit("yield* Effect.timeoutOption(Queue.take(notified), lookEvery)", "Option.some(yield* Queue.take(notified))")
    .foundBy(system("ciba/CibaApprovals", "asks no longer once an operator has decided")),
  plant("one question about an operation at a time", service)
    .edit("if (Option.isSome(running)) return", "if (Option.isSome(running) && mode === \"ping\") return")
    .foundBy(system("ciba/CibaApprovals", "asks once at a time")),
  plant("a notification needs the token of its question", service)
    .edit("isSame(given, token))[0]", "given !== \"\" || token === \"\")[0]")
    .foundBy(...notified),
  plant("a notification names its question", service)
    .edit(
      "typeof authReqId !== \"string\" || !isSame(authReqId, subscribed.authReqId ?? authReqId)",
      "typeof authReqId !== \"string\""
    )
    .foundBy(...notified),
  plant("the person reads the whole amount, or is not asked", "src/ciba/CibaApprovals.ts")
    .edit("room < shortestEnd + 2 ? null", "room < 0 ? null")
    .foundBy(unit("ciba/bindingMessage"))
]
