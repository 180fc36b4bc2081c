/** Mistakes in decisions by CIBA: an answer that the owner did not give counts. */
import { type Plant, plant, postgres, system, unit } from "../Plant.ts"

const service = "src/ciba/CibaApprovals.ts"
const protocol = "src/ciba/BackchannelAuthentication.ts"
const forged = [system("ciba/CibaApprovals", "refuses forged answers")]
const fair = (title: string) => [unit("ciba/askPending", title)]
const notified = [system("ciba/CibaApprovals", "takes a notification")]
const overTime = (name: string) => [unit("ciba/Questions", name)]

export const ciba: ReadonlyArray<Plant> = [
  plant("no binding message hides a part of the payee that selects the account", service)
    .edit("room < shortestEnd + 2 || payee.includes(betweenParts) ?", "room < shortestEnd + 2 ?")
    .foundBy(unit("banks/BankTerms", "for each roll number of an account")),
  plant("the mask of a payee tells roll numbers apart", "src/domain/Terms.ts")
    .edit("payee.split(betweenParts).map(maskPart)", "[payee].map(maskPart)")
    .foundBy(unit("banks/BankTerms", "for each roll number of an account")),
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
    .edit("if (used.has(signed))", "if (used.size < 0)")
    .foundBy(...forged),
  plant("an ID token with another signature is the same answer", protocol)
    .edit("idToken.slice(0, idToken.lastIndexOf(\".\"))", "idToken")
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
  plant("the person reads the whole amount, or is not asked", service)
    .edit("room < shortestEnd + 2 || payee", "room < 0 || payee")
    .foundBy(unit("ciba/bindingMessage")),
  plant("an ID token is remembered for as long as it is accepted", protocol)
    .edit("if (exp + clockTolerance < now) used.delete", "if (exp < now) used.delete")
    .foundBy(...forged),
  plant("the provider gets the demanded ways to authenticate as a list", protocol)
    .edit("acr_values: acrValues.join(\" \")", "acr_values: acrValues.join(\",\")")
    .foundBy(system("ciba/CibaApprovals", "approves as the owner")),
  plant("a provider that names no interval is polled every five seconds", protocol)
    .edit("interval = 5 }", "interval = 1 }")
    .foundBy(...overTime("is polled every five seconds")),
  plant("a provider may hold a poll until the person answers", protocol)
    .edit("    }, pollTimeout)", "    })")
    .foundBy(...overTime("gives the provider 30 seconds")),
  plant("a poll that failed is repeated without a further notification", service)
    .edit(
      "interval = Math.min(Math.max(interval, slowest), interval * 2)\n        isToldToWait = true",
      "interval = Math.min(Math.max(interval, slowest), interval * 2)"
    )
    .foundBy(...overTime("is polled again after")),
  plant("a poll that was too early is repeated without a further notification", service)
    .edit("interval += slowDown\n        isToldToWait = true", "interval += slowDown")
    .foundBy(...overTime("is polled again after")),
  plant("a provider that does not answer is polled at least once a minute", service)
    .edit("interval = Math.min(Math.max(interval, slowest), interval * 2)", "interval = interval * 2")
    .foundBy(...overTime("is polled at least once a minute")),
  plant("a ledger that cannot be read ends no question", service)
    .edit(
      "(approval) => approval?.state === \"pending\"), () => true)",
      "(approval) => approval?.state === \"pending\"), () => false)"
    )
    .foundBy(...overTime("is not ended by a ledger")),
  plant("a question ends when the provider says that it expires", service)
    .edit("Math.min(left, asked.expiresIn)", "Math.max(left, asked.expiresIn)")
    .foundBy(...overTime("ends when the provider says")),
  plant("a notification of another question causes no poll, also if it overtakes the response", service)
    .edit(
      "mayPoll = Option.contains(yield* Effect.timeoutOption(Queue.take(notified), lookEvery), asked.authReqId)",
      "mayPoll = Option.isSome(yield* Effect.timeoutOption(Queue.take(notified), lookEvery))"
    )
    .foundBy(...overTime("is not polled after a notification")),
  plant("a lost notification loses no answer", service)
    .edit("Effect.delay(remind, Math.max(slowest, asked.interval) * 1000)", "Effect.never")
    .foundBy(...overTime("is polled once a minute without")),
  plant("a lost notification loses no answer to a short question", service)
    .edit("Effect.delay(remind, Math.max(seconds - 5, seconds / 2) * 1000)", "Effect.void")
    .foundBy(...overTime("is polled once more before it ends")),
  plant("a question that the provider could not take is asked again", service)
    .edit("failure.reason === \"unavailable\"", "failure.reason === \"expired\"")
    .foundBy(...overTime("is asked again")),
  plant("an owner has five questions at a time", service)
    .edit("const mostOfOwner = 5", "const mostOfOwner = 500")
    .foundBy(...fair("an owner is asked five questions")),
  plant("each owner is listed, however many operations of another one wait", service)
    .edit(
      "      for (const owner of yield* Random.shuffle(owners)) {",
      "      for (const owner of owners.slice(0, 1)) {"
    )
    .foundBy(...fair("an owner is asked five questions")),
  plant("operations that were not decided hide no later one", service)
    .edit("else walk.after = listed.at(-1)!", "")
    .foundBy(...fair("an owner is asked about each operation once")),
  plant("an operation is asked about once", service)
    .edit("{ begun: walk.seen, seen: new Set() })", "{ begun: new Set(), seen: new Set() })")
    .foundBy(...fair("an owner is asked about each operation once")),
  plant("a look begins behind the owners of the look before", service)
    .edit("after = owners[ownersOfLook - 1]", "after = undefined")
    .foundBy(...fair("owners are asked however many")),
  plant("a client leaves places to others", service)
    .edit("(mostQuestions - underWay.size - ofClient) / 20", "mostQuestions - underWay.size")
    .foundBy(...fair("a client whose owners do not answer")),
  plant("the last places of a client are for owners who are not asked yet", service)
    .edit("- ofClient) / 20", "- ofClient)")
    .foundBy(...fair("a client whose owners do not answer")),
  plant("a question is asked again if the ledger could not be read", service)
    .edit("failure._tag === \"StoreUnavailable\" ||", "")
    .foundBy(...fair("an owner who could not be asked")),
  plant("the list of owners has each one once", "src/services/sql/ledger/SqlApprovals.ts")
    .edit("a.resource_owner > ${after}", "a.resource_owner >= ${after}")
    .foundBy(postgres("services/ledger/Approvals", "each owner is listed once")),
  plant("a page of approvals goes on behind the last one", "src/services/sql/ledger/SqlApprovals.ts")
    .edit("(a.expires_at, a.operation_id) > (${time}", "(a.expires_at, a.operation_id) >= (${time}")
    .foundBy(postgres("services/ledger/Approvals", "each owner is listed once"))
]
