/** Mistakes in the adapters for real banks, and in their simulators. */
import { type Plant, plant, unit } from "../Plant.ts"

const brokerOrders = "src/banks/brokerOrders.ts"
const httpProvider = "src/submission/http/HttpProvider.ts"
const increase = "src/banks/Increase.ts"
const iso20022 = "src/banks/iso20022.ts"
const openBankingUkDialect = "src/sandbox/banks/OpenBankingUkDialect.ts"
const orderAnswers = "src/submission/http/OrderAnswers.ts"
const securityEvents = "src/oauth/SecurityEvents.ts"

export const banks: ReadonlyArray<Plant> = [
  plant(
    "A simulator with mutual TLS takes no payment of a client without a certificate of its authority",
    "src/sandbox/SandboxServer.ts"
  )
    .edit("requestCert: true", "requestCert: false")
    .foundBy(unit("sandbox/MutualTls")),
  plant("Increase: a transfer that waits for a person of the bank is not paid", increase)
    .edit("requires_attention: \"submitted\"", "requires_attention: \"succeeded\"")
    .foundBy(unit("banks/Increase")),
  plant("Increase: an amount of dollars reaches the bank in whole cents", "src/domain/PayloadText.ts")
    .edit("Number(whole + fraction.padEnd(digits, \"0\"))", "Number(whole + fraction)")
    .foundBy(unit("banks/Increase")),
  plant("Increase: a known key with another body is no refusal of this transfer", increase)
    .edit(
      "refusal(\"invalid_operation_error\", \"not_possible\"),",
      "refusal(\"invalid_operation_error\", \"not_possible\"),\n    refusal(\"idempotency_key_already_used_error\", \"not_possible\"),"
    )
    .foundBy(unit("banks/Increase")),
  plant(
    "Increase: the simulator makes no second transfer for a key, and answers another body with the id of the first",
    "src/sandbox/banks/IncreaseDialect.ts"
  )
    .edit("if (!saying.isSame)", "if (saying.isFirst && !saying.isSame)")
    .foundBy(unit("banks/IncreaseSandbox")),
  plant("Open Banking UK: an answer without the bank's signature proves nothing", "src/oauth/JsonSignature.ts")
    .edit("Effect.mapError(() => refuse(\"with a wrong signature\"))", "Effect.catch(() => Effect.void)")
    .foundBy(unit("banks/OpenBankingUkSignatures")),
  plant("Open Banking UK: an event without the bank's signature is no hint", securityEvents)
    .edit("      ({ reason }) => refuse(`an event ${reason}`)", "      () => Effect.void")
    .foundBy(unit("banks/OpenBankingEvents")),
  plant("Open Banking UK: an event for another receiver is no hint", securityEvents)
    .edit("if (![event.aud].flat().includes(audience))", "if ([event.aud].flat().length === 0)")
    .foundBy(unit("banks/OpenBankingEvents")),
  plant("Open Banking UK: an event of another issuer is no hint", securityEvents)
    .edit("if (event.iss !== issuer)", "if (event.iss === \"\")")
    .foundBy(unit("banks/OpenBankingEvents")),
  plant("Open Banking UK: an old event is no hint", securityEvents)
    .edit("isRecent(longest)(", "isRecent(Infinity)(")
    .foundBy(unit("banks/OpenBankingEvents")),
  plant("Open Banking UK: an old answer of the bank proves nothing", "src/oauth/JsonSignature.ts")
    .edit("age >= -clockDifference && age <= maxAge", "age >= -clockDifference")
    .foundBy(unit("banks/OpenBankingUkSignatures", "that was kept for")),
  plant("Open Banking UK: a repeated event counts with its first signature", "src/banks/OpenBankingMessages.ts")
    .edit("makeVerifier(bank, Infinity)", "makeVerifier(bank)")
    .foundBy(unit("banks/OpenBankingEvents", "is a hint about its payment")),
  plant(
    "Open Banking UK: an unused consent is final only once no kept answer shows it as unused",
    "src/banks/paymentConsent.ts"
  )
    .edit("Duration.millis(signatureAge)", "Duration.zero")
    .foundBy(unit("banks/OpenBankingUkSignatures", "from before counts no more")),
  plant("Open Banking UK: a repeated event is one hint", securityEvents)
    .edit("reference === undefined || received.has(event.jti)", "reference === undefined")
    .foundBy(unit("banks/OpenBankingEvents")),
  plant("Open Banking UK: an event ahead of the clock is remembered for as long as it counts", securityEvents)
    .edit("at >= now - longest - clockDifference", "at >= now - longest")
    .foundBy(unit("banks/OpenBankingEvents")),
  plant("Open Banking UK: an event whose hint failed is a hint once it is repeated", securityEvents)
    .edit("    yield* hint({ reference", "    remember(event.jti, now)\n    yield* hint({ reference")
    .foundBy(unit("banks/OpenBankingEvents")),
  plant("Open Banking UK: a used consent proves no payment of this operation", "src/banks/OpenBankingMessages.ts")
    .edit("isUsed: status === \"COND\"", "isUsed: status !== status")
    .foundBy(unit("banks/OpenBankingUk", "After a lost answer")),
  plant("Open Banking UK: an error that does not prove that nothing was ordered is no refusal", orderAnswers)
    .edit("codes.map(finalCode)", "codes.map((code) => finalCode(code) ?? \"payment_rejected\")")
    .foundBy(unit("banks/OpenBankingUk", "Each documented error")),
  plant("a payment that is under way at a bank has not succeeded", "src/submission/providers/ProviderAdapter.ts")
    .edit(
      "      return SubmissionAnswer.Acknowledged({ names, evidence })",
      "      return SubmissionAnswer.Succeeded({ names, evidence })"
    )
    .foundBy(unit("banks/OpenBankingUk", "Each status of a payment")),
  plant("Open Banking UK: a payment that is debited alone has not succeeded, where its credit is reported", iso20022)
    .edit("status === \"ACSC\" && succeedsAt === \"ACCC\"", "status === \"ACSC\" && succeedsAt !== succeedsAt")
    .foundBy(unit("banks/OpenBankingUk", "where ACCC alone succeeds")),
  plant("Increase: a transfer in another currency is no result of one in dollars", increase)
    .edit("currency === \"USD\" ? null", "currency !== \"\" ? null")
    .foundBy(unit("banks/Increase", "in another currency")),
  plant("an order that proves nothing is no result of a submission", orderAnswers)
    .edit("unproven(order) === null ? result(order, []) :", "unproven(order) !== undefined ? result(order, []) :")
    .foundBy(unit("banks/Increase", "in another currency")),
  plant(
    "a further page of a status read is asked for with the headers of the first",
    "src/submission/http/HttpStatusReads.ts"
  )
    .edit("{ path, headers: headersOf() }", "{ path }")
    .foundBy(unit("submission/http/HttpProviderAnswers", "that searches a list")),
  plant("the evidence of a refusal repeats nothing of the payload", orderAnswers)
    .edit(
      "      names: names(body),\n      evidence: declared(body, answer)",
      "      names: names(body),\n      evidence: { status: answer.status, body: answer.body }"
    )
    .foundBy(unit("banks/Increase", "that the bank repeats")),
  plant("Increase: an account pays for its owner alone", increase)
    .edit("mayPayFrom(operation, account_id)", "Effect.as(mayPayFrom(operation, account_id), true)")
    .foundBy(unit("banks/Increase", "to an owner without it")),
  plant("a fence is sent only if the application permits the operation", httpProvider)
    .edit(
      "      const { cancel, checkAccount, decode } = options.fence!\n      yield* preparePermission(options.isPermitted, operation, decoded, adapter.limits.headers)\n",
      "      const { cancel, checkAccount, decode } = options.fence!\n"
    )
    .foundBy(unit("banks/Increase", "to an owner without it")),
  plant("only the answer true permits an operation", "src/submission/http/HttpPreparation.ts")
    .edit("        answer === true ? Effect.void", "        answer ? Effect.void")
    .foundBy(unit("banks/Increase", "to an owner without it")),
  plant("a question that fails ends no operation", "src/submission/http/HttpPreparation.ts")
    .edit("new NotPrepared({ ...error, isOfOperation: true })", "new NotPrepared({ ...error, isForbidden: true })")
    .foundBy(unit("banks/Increase", "to an owner without it")),
  plant("the payee of a credit transfer names the bank of the account", iso20022)
    .edit("part(\"agent\", agent && `${agent.SchemeName} ${agent.Identification}`)", "\"\"")
    .foundBy(unit("banks/BankTerms")),
  plant("the mask of a payee tells accounts apart", increase)
    .edit("[funding, routing_number, account_number].filter", "[routing_number, account_number, funding].filter")
    .foundBy(unit("banks/BankTerms", "another mask for each account")),
  plant("no text in a payee imitates a further part of it", iso20022)
    .edit("text.replaceAll(\"|\", \"||\")", "text")
    .foundBy(unit("banks/BankTerms")),
  plant("a credit transfer with terms pays no proxy", iso20022)
    .edit("payee.Proxy !== undefined || UltimateCreditor", "UltimateCreditor")
    .foundBy(unit("banks/BankTerms")),
  plant("Increase: the id of a payee imitates no account number", increase)
    .edit("textLike(/^\\S{1,200}$/u, \"an id without blanks\")", "textUpTo(200)")
    .foundBy(unit("banks/BankTerms")),
  plant("a coin at Alpaca and a stock of the same symbol are two payees", brokerOrders)
    .edit("currency === undefined ? asset : `${asset} coin`", "asset")
    .foundBy(unit("banks/Alpaca", "as an order")),
  plant("an error of Open Banking UK that depends on time or balance is not final", "src/banks/OpenBankingMessages.ts")
    .edit("passing.has(code) ? undefined : codes[code]", "codes[code]")
    .foundBy(unit("banks/OpenBankingUk", "Each documented error")),
  plant("Open Banking UK: each error of an answer must prove that nothing was ordered", orderAnswers)
    .edit("code === undefined || others.some((other) => other === undefined)", "code === undefined")
    .foundBy(unit("banks/OpenBankingUk", "Each documented error")),
  plant("Open Banking UK: the simulator pays once under a consent, also after 24 hours", openBankingUkDialect)
    .edit("return { key: ConsentId,", "return { key: `${ConsentId} ${key}`,")
    .foundBy(unit("banks/OpenBankingUkSandbox", "pays once")),
  plant(
    "Open Banking UK: after a restart, the simulator refuses payments from the cut-off time of a consent on",
    openBankingUkDialect
  )
    .edit("createdAt: creationIn(id) ?? now", "createdAt: now")
    .foundBy(unit("banks/OpenBankingUkSandbox", "restarted meanwhile")),
  plant("Open Banking UK: no payment is sent while the keys of the bank cannot be read", "src/banks/OpenBankingUk.ts")
    .edit("Effect.andThen(ready, tokenOf(", "Effect.andThen(Effect.void, tokenOf(")
    .foundBy(unit("banks/OpenBankingUk", "A payment is not sent")),
  plant("Open Banking UK: a payer's missing token is of this payment alone", "src/submission/http/HttpCall.ts")
    .edit("new NotPrepared({ ...error, ...ofOwner(options) })", "new NotPrepared(error)")
    .foundBy(unit("banks/OpenBankingUk", "A payer without a token")),
  plant("Open Banking UK: a payer's refused token is of this payment alone", "src/banks/OpenBankingUk.ts")
    .edit("credentialsOf: \"operation\"", "credentialsOf: \"gateway\"")
    .foundBy(unit("banks/OpenBankingUk", "401 of the payer's token")),
  plant("Open Banking UK: a refused signature or path is of all payments", httpProvider)
    .edit("failure.reason.startsWith(pauseReasons.credentials) ? ofOwner(options) : {}", "ofOwner(options)")
    .foundBy(unit("banks/OpenBankingUk", "A wrong path or signature")),
  plant("Alpaca: refused keys of one owner are of this order alone", httpProvider)
    .edit("headersOf), credentialsOf: \"operation\" }", "headersOf), credentialsOf: \"gateway\" }")
    .foundBy(unit("banks/Alpaca", "takes refused keys")),
  plant("Open Banking UK: the owner of an operation decides whose consent it may use", "src/banks/OpenBankingUk.ts")
    .edit("resourceOwner: operation.resource_owner", "resourceOwner: ConsentId.replace(/^consent-of-/u, \"\") as never")
    .foundBy(unit("banks/OpenBankingUk", "Nothing is sent under")),
  plant("Open Banking UK: an expired certificate is refused at the start", "src/banks/startChecks.ts")
    .edit("!ProviderHttpClient.isValidAt(certificate, now)", "false")
    .foundBy(unit("banks/OpenBankingUk", "At the start")),
  plant("nothing is sent with a certificate of the gateway that is not valid", "src/node/http/ProviderHttpClient.ts")
    .edit("if (isValidAt(certificate, now)) return sent", "if (true || isValidAt(certificate, now)) return sent")
    .foundBy(unit("submission/http/HttpProviderTls", "outside of the validity")),
  plant("an expired certificate of the gateway is a local failure", "src/submission/http/HttpExchange.ts")
    .edit("[\"GATEWAY_CERT_NOT_VALID\", \"expired\"],", "")
    .foundBy(unit("submission/http/HttpProviderTls", "outside of the validity")),
  plant("Open Banking UK: an answer about another consent proves nothing", "src/banks/OpenBankingMessages.ts")
    .edit("Data.ConsentId === id)", "Data.ConsentId !== \"\" || id === \"\")")
    .foundBy(unit("banks/OpenBankingUk", "A signed answer about another consent")),
  plant("Open Banking UK: a client id that cannot be right is refused at the start", "src/banks/startChecks.ts")
    .edit("    HttpProvider.requireSecret(\"client.clientId\", Redacted.make(clientId))\n", "")
    .foundBy(unit("banks/OpenBankingUk", "At the start")),
  plant("Open Banking UK: a consent is read with the token of the gateway", "src/submission/http/HttpStatusReads.ts")
    .edit(
      "const status = yield* ask(adapter, operation, encode, decode, null)\n",
      "const status = yield* ask(adapter, operation, encode, decode, null, decoded)\n"
    )
    .foundBy(unit("banks/OpenBankingUkSandbox", "After a lost answer")),
  plant("a key goes to a bank without TLS to this machine alone", httpProvider)
    .edit(
      "protocol === \"https:\" || loopbackHosts.has(hostname)",
      "true || protocol === \"https:\" || loopbackHosts.has(hostname)"
    )
    .foundBy(unit("banks/Increase")),
  plant("Increase: a transfer of a fence that a person approved is the payment of the operation", increase)
    .edit(
      "if (status === \"canceled\") return \"cancelled\"",
      "if (status !== \"pending_approval\") return \"cancelled\""
    )
    .foundBy(unit("banks/Fences")),
  plant("Increase: the order of a fence differs from that of the submission", increase)
    .edit("requestOf(type, transfer, { require_approval: true })", "requestOf(type, transfer)")
    .foundBy(unit("banks/Fences")),
  plant("Increase: the bank's name for the object of another body is no proof that a fence has the key", increase)
    .edit(
      "HttpProvider.KeyHolder.First({ names: { reference: resource_id, operation_id: null } })",
      "HttpProvider.KeyHolder.Own({ names: { reference: resource_id, operation_id: null }, evidence: {}, isCancelled: true })"
    )
    .foundBy(unit("banks/Fences", "with another body")),
  plant("a fence cancels no order of another operation", httpProvider)
    .edit(
      "(holder.names.operation_id ?? operation.id) !== operation.id",
      "(holder.names.operation_id ?? operation.id) === \"\""
    )
    .foundBy(unit("banks/FenceAnswers")),
  plant("Alpaca: the first order is never taken for that of a fence", "src/banks/Alpaca.ts")
    .edit("if (!isUnfillable(order)) return \"first\"", "if (order.id === \"\") return \"first\"")
    .foundBy(unit("banks/FenceAnswers")),
  plant("Alpaca: an order without a limit is never taken for that of a fence", "src/banks/Alpaca.ts")
    .edit(
      "limit_price: textLike(/^0\\.00010*$/u, unfillable.limit_price)",
      "limit_price: textLike(/^(?:0\\.00010*)?$/u, unfillable.limit_price)"
    )
    .foundBy(unit("banks/FenceAnswers")),
  plant("Alpaca: the ledger refuses a limit price with a step that no stock has", "src/banks/Alpaca.ts")
    .edit("  BrokerOrders.hasPriceStep,\n", "")
    .foundBy(unit("banks/Alpaca", "as an order")),
  plant("Alpaca: the ledger refuses a notional with a part of a cent", brokerOrders)
    .edit("fraction: 2,", "fraction: 9,")
    .foundBy(unit("banks/Alpaca", "as an order")),
  plant("Alpaca: the symbol of a pair of coins has no fence, also without a slash", brokerOrders)
    .edit("(?!.*(?:USD|USDT|USDC|BTC)$)[A-Z]{5})$/u", "[A-Z]{5,})$/u")
    .foundBy(unit("banks/FenceAnswers")),
  plant(
    "Alpaca: a limit in dollars counts no order that is paid in coins, also by the old symbol of a pair",
    brokerOrders
  )
    .edit(
      "Schema.makeFilter(({ symbol }: Fields) => hasPriceInDollars(symbol), {",
      "Schema.makeFilter(({ symbol }: Fields) => hasPriceInDollars(symbol) || !symbol.includes(\"/\"), {"
    )
    .foundBy(unit("banks/Alpaca")),
  plant("Alpaca: only a cancelled order of a fence proves that the id is taken", "src/banks/Alpaca.ts")
    .edit(
      "return order.status === \"canceled\" ? \"cancelled\" : \"waiting\"",
      "return isOpen(order) ? \"waiting\" : \"cancelled\""
    )
    .foundBy(unit("banks/FenceAnswers")),
  plant("Alpaca: no fence is sent with keys that may name another account later", "src/banks/Alpaca.ts")
    .edit("if (fence && typeof keys === \"function\") {", "if (fence && baseUrl === \"\") {")
    .foundBy(unit("banks/FenceAnswers")),
  plant("a fence is sent only once the credentials name the account of the settings", httpProvider)
    .edit("isOurs, notAfter, decoded, late))) return otherAccount", "isOurs, notAfter, decoded, late))) yield* goesOn")
    .foundBy(unit("banks/FenceAnswers", "once the keys name the account")),
  plant("Alpaca: a path in the address of the settings does not start", httpProvider)
    .edit("pathname !== \"/\" && roots.includes(hostname)", "pathname === \"\" && roots.includes(hostname)")
    .foundBy(unit("banks/Alpaca", "without a path")),
  plant(
    "a refusal of credentials that may have done something is uncertain, and pauses the provider",
    "src/submission/http/HttpDecoding.ts"
  )
    .edit("without a code`, isUndeclared: true, isUnauthorized: true", "without a code`, isUndeclared: true")
    .foundBy(unit("banks/Alpaca", "without a code")),
  plant("Open Banking UK: a consent that a payer may reinstate ends no payment", "src/banks/OpenBankingMessages.ts")
    .edit("status === \"RJCT\" ?", "[\"RJCT\", \"CANC\", \"EXPD\"].includes(status) ?")
    .foundBy(unit("banks/OpenBankingUk", "none was ordered so far")),
  plant("a consent without a positive lifetime does not start", "src/banks/paymentConsent.ts")
    .edit("!Duration.isFinite(duration) || !Duration.isPositive(duration)", "!Duration.isFinite(duration)")
    .foundBy(unit("banks/OpenBankingUk", "At the start, the adapter refuses")),
  plant("Alpaca: a switch that is no account turns no fence on", "src/banks/Alpaca.ts")
    .edit("if (account !== undefined && !/^(?=.*[0-9])[A-Z0-9]{6,32}$/u.test(account)) {", "if (account === \"off\") {")
    .foundBy(unit("banks/FenceAnswers", "is refused at the start with")),
  plant("Alpaca: the ledger refuses an order with the shape of a fence", "src/banks/Alpaca.ts")
    .edit("Schema.makeFilter((order) => !isUnfillable(order), {", "Schema.makeFilter((order) => order.qty !== \"\", {")
    .foundBy(unit("banks/Alpaca")),
  plant("no log, span or error of a worker quotes a request to a bank", "src/http/RequestFailure.ts")
    .edit("const kind = isClientError ? error.reason._tag :", "const kind = isClientError ? error.message :")
    .foundBy(unit("banks/Secrets")),
  plant("no span has the token that a bank gave the gateway", "src/oauth/ClientAuthentication.ts")
    .edit(
      "const token = Redacted.make(access_token)",
      "const token = Redacted.make(access_token)\n    yield* Effect.annotateCurrentSpan({ access_token })"
    )
    .foundBy(unit("banks/Secrets")),
  plant("a person who asked before the last fence ended records no failure", "src/domain/operators/validateAskedAt.ts")
    .edit(
      "isFailure && fencing_until !== null && at < fencing_until + tolerance",
      "isFailure && fencing_until !== null && at < tolerance"
    )
    .foundBy(unit("banks/Fences", "a person who asks the bank between fences")),
  plant("a status read asks caches for the present state", "src/submission/http/HttpRequest.ts")
    .edit("acceptJson, freshState, headers", "acceptJson, headers")
    .foundBy(unit("submission/http/HttpProvider", "A status read")),
  plant("Open Banking UK: a documented error of the bank is no mistake of the adapter", "src/banks/OpenBankingUk.ts")
    .edit(", 500: HttpProvider.undecided", "")
    .foundBy(unit("banks/OpenBankingUk")),
  plant("no token of a bank is used in its last minute", "src/oauth/ClientAuthentication.ts")
    .edit("now + expires_in * 1000 - margin", "now + expires_in * 1000")
    .foundBy(unit("oauth/ClientAuthentication", "until a minute before its end")),
  plant("Alpaca: the adapter asks no more in a minute than Alpaca documents", "src/banks/Alpaca.ts")
    .edit("interval: \"1 minute\" }", "interval: \"1 second\" }")
    .foundBy(unit("banks/FenceAnswers", "is on in the environment")),
  plant("Alpaca: the ledger refuses an order outside of trading hours that is no limit order", "src/banks/Alpaca.ts")
    .edit("type === \"limit\" && (time_in_force", "(time_in_force")
    .foundBy(unit("banks/Alpaca", "as an order")),
  plant("Increase: a return is looked for as long as a consumer may cause it", increase)
    .edit("ach_transfer: \"60 days\"", "ach_transfer: \"2 days\"")
    .foundBy(unit("banks/Increase", "promises that an ACH transfer")),
  plant("Increase: the ledger refuses a payee with half of its numbers", increase)
    .edit(
      "account_number !== undefined && routing_number !== undefined",
      "account_number !== undefined || routing_number !== undefined"
    )
    .foundBy(unit("banks/Increase", "of an ACH transfer: ")),
  plant("a consent is refused from the first end on that the bank documents", "src/banks/paymentConsent.ts")
    .edit("all.reduce(DateTime.min)", "all.reduce(DateTime.max)")
    .foundBy(unit("banks/OpenBankingUk", "is refused from the first end on")),
  plant("the cut-off time of a consent ends it only if the bank documents that", "src/banks/paymentConsent.ts")
    .edit("ends?.refusesAfterCutOff === true && cutOff !== undefined", "cutOff !== undefined")
    .foundBy(unit("banks/OpenBankingUk", "is refused from the first end on")),
  plant("a signing key of less than 2048 bits is refused at the start", "src/banks/startChecks.ts")
    .edit("bits < 2048", "bits < 1024")
    .foundBy(unit("banks/OpenBankingUk", "a short key")),
  plant("the first mapped reason of a rejected payment is its code", iso20022)
    .edit(".find((code) => code !== undefined)", ".findLast((code) => code !== undefined)")
    .foundBy(unit("banks/OpenBankingUk", "RJCT for several reasons")),
  plant("an operator reads what is wrong with the signature of an answer", "src/banks/messageSignatures.ts")
    .edit(
      "(error) => error._tag === \"InvalidCredential\" ? error.reason! : \"and the keys of the bank cannot be read\"",
      "(error) => error._tag"
    )
    .foundBy(unit("banks/OpenBankingUkSignatures", "the answer proves nothing"))
]
