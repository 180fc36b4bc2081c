/** Mistakes in the adapters for real banks, and in their simulators. */
import { type Plant, unit } from "../Plant.ts"

export const banks: ReadonlyArray<Plant> = [
  {
    rule: "A simulator with mutual TLS takes no payment of a client without a certificate of its authority",
    file: "src/sandbox/SandboxServer.ts",
    from: "requestCert: true",
    to: "requestCert: false",
    tests: [unit("sandbox/MutualTls")]
  },
  {
    rule: "Increase: a transfer that waits for a person of the bank is not paid",
    file: "src/banks/Increase.ts",
    from: "requires_attention: \"submitted\"",
    to: "requires_attention: \"succeeded\"",
    tests: [unit("banks/Increase")]
  },
  {
    rule: "Increase: an amount of dollars reaches the bank in whole cents",
    file: "src/domain/PayloadText.ts",
    from: "Number(whole + fraction.padEnd(digits, \"0\"))",
    to: "Number(whole + fraction)",
    tests: [unit("banks/Increase")]
  },
  {
    rule: "Increase: a known key with another body is no refusal of this transfer",
    file: "src/banks/Increase.ts",
    from: "refusal(\"invalid_operation_error\", \"not_possible\"),",
    to:
      "refusal(\"invalid_operation_error\", \"not_possible\"),\n    refusal(\"idempotency_key_already_used_error\", \"not_possible\"),",
    tests: [unit("banks/Increase")]
  },
  {
    rule:
      "Increase: the simulator makes no second transfer for a key, and answers another body with the id of the first",
    file: "src/sandbox/banks/IncreaseDialect.ts",
    from: "if (!saying.isSame)",
    to: "if (saying.isFirst && !saying.isSame)",
    tests: [unit("banks/Increase")]
  },
  {
    rule: "Open Banking UK: an answer without the bank's signature proves nothing",
    file: "src/oauth/JsonSignature.ts",
    from: "Effect.mapError(() => refuse(\"with a wrong signature\"))",
    to: "Effect.catch(() => Effect.void)",
    tests: [unit("banks/OpenBankingUk", "A signature")]
  },
  {
    rule: "Open Banking UK: an event without the bank's signature is no hint",
    file: "src/oauth/SecurityEvents.ts",
    from: "      ({ reason }) => refuse(`an event ${reason}`)",
    to: "      () => Effect.void",
    tests: [unit("banks/OpenBankingEvents")]
  },
  {
    rule: "Open Banking UK: an event for another receiver is no hint",
    file: "src/oauth/SecurityEvents.ts",
    from: "if (![event.aud].flat().includes(audience))",
    to: "if ([event.aud].flat().length === 0)",
    tests: [unit("banks/OpenBankingEvents")]
  },
  {
    rule: "Open Banking UK: an event of another issuer is no hint",
    file: "src/oauth/SecurityEvents.ts",
    from: "if (event.iss !== issuer)",
    to: "if (event.iss === \"\")",
    tests: [unit("banks/OpenBankingEvents")]
  },
  {
    rule: "Open Banking UK: an old event is no hint",
    file: "src/oauth/SecurityEvents.ts",
    from: "age < -clockDifference || age > longest",
    to: "age < -clockDifference",
    tests: [unit("banks/OpenBankingEvents")]
  },
  {
    rule: "Open Banking UK: a repeated event is one hint",
    file: "src/oauth/SecurityEvents.ts",
    from: "reference === undefined || received.has(event.jti)",
    to: "reference === undefined",
    tests: [unit("banks/OpenBankingEvents")]
  },
  {
    rule: "Open Banking UK: an event whose hint failed is a hint once it is repeated",
    file: "src/oauth/SecurityEvents.ts",
    from: "    yield* hint({ reference",
    to: "    remember(event.jti, now)\n    yield* hint({ reference",
    tests: [unit("banks/OpenBankingEvents")]
  },
  {
    rule: "Open Banking UK: a used consent proves no payment of this operation",
    file: "src/banks/OpenBankingMessages.ts",
    from: "isUsed: status === \"COND\"",
    to: "isUsed: status !== status",
    tests: [unit("banks/OpenBankingUk", "After a lost answer")]
  },
  {
    rule: "Open Banking UK: an error that does not prove that nothing was ordered is no refusal",
    file: "src/submission/http/OrderAnswers.ts",
    from: "codes.map(finalCode)",
    to: "codes.map((code) => finalCode(code) ?? \"payment_rejected\")",
    tests: [unit("banks/OpenBankingUk", "Each documented error")]
  },
  {
    rule: "a payment that is under way at a bank has not succeeded",
    file: "src/submission/providers/ProviderAdapter.ts",
    from: "      return SubmissionAnswer.Acknowledged({ names, evidence })",
    to: "      return SubmissionAnswer.Succeeded({ names, evidence })",
    tests: [unit("banks/OpenBankingUk", "Each status of a payment")]
  },
  {
    rule: "a coin at Alpaca and a stock of the same symbol are two payees",
    file: "src/banks/brokerOrders.ts",
    from: "currency === undefined ? asset : `${asset} coin`",
    to: "asset",
    tests: [unit("banks/Alpaca", "as an order")]
  },
  {
    rule: "an error of Open Banking UK that depends on time or balance is not final",
    file: "src/banks/OpenBankingMessages.ts",
    from: "passing.has(code) ? undefined : codes[code]",
    to: "codes[code]",
    tests: [unit("banks/OpenBankingUk", "Each documented error")]
  },
  {
    rule: "Open Banking UK: each error of an answer must prove that nothing was ordered",
    file: "src/submission/http/OrderAnswers.ts",
    from: "code === undefined || others.some((other) => other === undefined)",
    to: "code === undefined",
    tests: [unit("banks/OpenBankingUk", "Each documented error")]
  },
  {
    rule: "Open Banking UK: the simulator pays once under a consent, also after 24 hours",
    file: "src/sandbox/banks/OpenBankingUkDialect.ts",
    from: "return { key: ConsentId,",
    to: "return { key: `${ConsentId} ${key}`,",
    tests: [unit("banks/OpenBankingUkSandbox", "pays once")]
  },
  {
    rule: "Open Banking UK: after a restart, the simulator refuses payments from the cut-off time of a consent on",
    file: "src/sandbox/banks/OpenBankingUkDialect.ts",
    from: "createdAt: creationIn(id) ?? now",
    to: "createdAt: now",
    tests: [unit("banks/OpenBankingUkSandbox", "restarted meanwhile")]
  },
  {
    rule: "Open Banking UK: no payment is sent while the keys of the bank cannot be read",
    file: "src/banks/OpenBankingUk.ts",
    from: "Effect.andThen(ready, tokenOf(",
    to: "Effect.andThen(Effect.void, tokenOf(",
    tests: [unit("banks/OpenBankingUk", "A payment is not sent")]
  },
  {
    rule: "Open Banking UK: a payer's missing token is of this payment alone",
    file: "src/submission/http/HttpCall.ts",
    from: "new NotPrepared({ ...error, ...ofOwner(options) })",
    to: "new NotPrepared(error)",
    tests: [unit("banks/OpenBankingUk", "A payer without a token")]
  },
  {
    rule: "Open Banking UK: a payer's refused token is of this payment alone",
    file: "src/banks/OpenBankingUk.ts",
    from: "credentialsOf: \"operation\"",
    to: "credentialsOf: \"gateway\"",
    tests: [unit("banks/OpenBankingUk", "401 of the payer's token")]
  },
  {
    rule: "Open Banking UK: a refused signature or path is of all payments",
    file: "src/submission/http/HttpProvider.ts",
    from: "failure.reason.startsWith(pauseReasons.credentials) ? ofOwner(options) : {}",
    to: "ofOwner(options)",
    tests: [unit("banks/OpenBankingUk", "A wrong path or signature")]
  },
  {
    rule: "Alpaca: refused keys of one owner are of this order alone",
    file: "src/submission/http/HttpProvider.ts",
    from: "headersOf), credentialsOf: \"operation\" }",
    to: "headersOf), credentialsOf: \"gateway\" }",
    tests: [unit("banks/Alpaca", "takes refused keys")]
  },
  {
    rule: "Open Banking UK: the owner of an operation decides whose consent it may use",
    file: "src/banks/OpenBankingUk.ts",
    from: "resourceOwner: operation.resource_owner",
    to: "resourceOwner: ConsentId.replace(/^consent-of-/u, \"\") as never",
    tests: [unit("banks/OpenBankingUk", "Nothing is sent under")]
  },
  {
    rule: "Open Banking UK: an expired certificate is refused at the start",
    file: "src/banks/startChecks.ts",
    from: "!ProviderHttpClient.isValidAt(certificate, now)",
    to: "false",
    tests: [unit("banks/OpenBankingUk", "At the start")]
  },
  {
    rule: "nothing is sent with a certificate of the gateway that is not valid",
    file: "src/node/http/ProviderHttpClient.ts",
    from: "if (isValidAt(certificate, now)) return sent",
    to: "if (true || isValidAt(certificate, now)) return sent",
    tests: [unit("submission/http/HttpProviderTls", "outside of the validity")]
  },
  {
    rule: "an expired certificate of the gateway is a local failure",
    file: "src/submission/http/HttpExchange.ts",
    from: "[\"GATEWAY_CERT_NOT_VALID\", \"expired\"],",
    to: "",
    tests: [unit("submission/http/HttpProviderTls", "outside of the validity")]
  },
  {
    rule: "Open Banking UK: an answer about another consent proves nothing",
    file: "src/banks/OpenBankingMessages.ts",
    from: "Data.ConsentId === id)",
    to: "Data.ConsentId !== \"\" || id === \"\")",
    tests: [unit("banks/OpenBankingUk", "A signed answer about another consent")]
  },
  {
    rule: "Open Banking UK: a client id that cannot be right is refused at the start",
    file: "src/banks/startChecks.ts",
    from: "    HttpProvider.requireSecret(\"client.clientId\", Redacted.make(clientId))\n",
    to: "",
    tests: [unit("banks/OpenBankingUk", "At the start")]
  },
  {
    rule: "Open Banking UK: a consent is read with the token of the gateway",
    file: "src/submission/http/HttpStatusReads.ts",
    from: "const status = yield* ask(adapter, operation, encode, decode, null)\n",
    to: "const status = yield* ask(adapter, operation, encode, decode, null, decoded)\n",
    tests: [unit("banks/OpenBankingUkSandbox", "After a lost answer")]
  },
  {
    rule: "a key goes to a bank without TLS to this machine alone",
    file: "src/submission/http/HttpProvider.ts",
    from: "protocol === \"https:\" || loopbackHosts.has(hostname)",
    to: "true || protocol === \"https:\" || loopbackHosts.has(hostname)",
    tests: [unit("banks/Increase")]
  },
  {
    rule: "Increase: a transfer of a fence that a person approved is the payment of the operation",
    file: "src/banks/Increase.ts",
    from: "if (status === \"canceled\") return \"cancelled\"",
    to: "if (status !== \"pending_approval\") return \"cancelled\"",
    tests: [unit("banks/Fences")]
  },
  {
    rule: "Increase: the order of a fence differs from that of the submission",
    file: "src/banks/Increase.ts",
    from: "body: { ...bodyOf(transfer), require_approval: true }",
    to: "body: bodyOf(transfer)",
    tests: [unit("banks/Fences")]
  },
  {
    rule: "Increase: the bank's name for the object of another body is no proof that a fence has the key",
    file: "src/banks/Increase.ts",
    from: "HttpProvider.KeyHolder.First({ names: { reference: resource_id, operation_id: null } })",
    to:
      "HttpProvider.KeyHolder.Own({ names: { reference: resource_id, operation_id: null }, evidence: {}, isCancelled: true })",
    tests: [unit("banks/Fences", "with another body")]
  },
  {
    rule: "a fence cancels no order of another operation",
    file: "src/submission/http/HttpProvider.ts",
    from: "(holder.names.operation_id ?? operation.id) !== operation.id",
    to: "(holder.names.operation_id ?? operation.id) === \"\"",
    tests: [unit("banks/Fences")]
  },
  {
    rule: "Alpaca: the first order is never taken for that of a fence",
    file: "src/banks/Alpaca.ts",
    from: "if (!isUnfillable(order)) return \"first\"",
    to: "if (order.id === \"\") return \"first\"",
    tests: [unit("banks/Fences")]
  },
  {
    rule: "Alpaca: an order without a limit is never taken for that of a fence",
    file: "src/banks/Alpaca.ts",
    from: "limit_price: textLike(/^0\\.00010*$/u, unfillable.limit_price)",
    to: "limit_price: textLike(/^(?:0\\.00010*)?$/u, unfillable.limit_price)",
    tests: [unit("banks/Fences")]
  },
  {
    rule: "Alpaca: the symbol of a pair of coins has no fence, also without a slash",
    file: "src/banks/brokerOrders.ts",
    from: "(?!.*(?:USD|USDT|USDC|BTC)$)[A-Z]{5})$/u",
    to: "[A-Z]{5,})$/u",
    tests: [unit("banks/Fences")]
  },
  {
    rule: "Alpaca: a limit in dollars counts no order that is paid in coins, also by the old symbol of a pair",
    file: "src/banks/brokerOrders.ts",
    from: "Schema.makeFilter(({ symbol }: Fields) => hasPriceInDollars(symbol), {",
    to: "Schema.makeFilter(({ symbol }: Fields) => hasPriceInDollars(symbol) || !symbol.includes(\"/\"), {",
    tests: [unit("banks/Alpaca")]
  },
  {
    rule: "Alpaca: only a cancelled order of a fence proves that the id is taken",
    file: "src/banks/Alpaca.ts",
    from: "return order.status === \"canceled\" ? \"cancelled\" : \"waiting\"",
    to: "return isOpen(order) ? \"waiting\" : \"cancelled\"",
    tests: [unit("banks/Fences")]
  },
  {
    rule: "Alpaca: no fence is sent with keys that may name another account later",
    file: "src/banks/Alpaca.ts",
    from: "if (fence && typeof keys === \"function\") {",
    to: "if (fence && baseUrl === \"\") {",
    tests: [unit("banks/Fences")]
  },
  {
    rule: "a fence is sent only once the credentials name the account of the settings",
    file: "src/submission/http/HttpProvider.ts",
    from: "isOurs, notAfter, decoded, late))) return otherAccount",
    to: "isOurs, notAfter, decoded, late))) yield* goesOn",
    tests: [unit("banks/Fences", "once the keys name the account")]
  },
  {
    rule: "Alpaca: a path in the address of the settings does not start",
    file: "src/submission/http/HttpProvider.ts",
    from: "pathname !== \"/\" && roots.includes(hostname)",
    to: "pathname === \"\" && roots.includes(hostname)",
    tests: [unit("banks/Alpaca", "without a path")]
  },
  {
    rule: "a refusal of credentials that may have done something is uncertain, and pauses the provider",
    file: "src/submission/http/HttpDecoding.ts",
    from: "without a code`, isUndeclared: true, isUnauthorized: true",
    to: "without a code`, isUndeclared: true",
    tests: [unit("banks/Alpaca", "without a code")]
  },
  {
    rule: "Open Banking UK: a consent that a payer may reinstate ends no payment",
    file: "src/banks/OpenBankingMessages.ts",
    from: "status === \"RJCT\" ?",
    to: "[\"RJCT\", \"CANC\", \"EXPD\"].includes(status) ?",
    tests: [unit("banks/OpenBankingUk", "none was ordered so far")]
  },
  {
    rule: "a consent without a positive lifetime does not start",
    file: "src/banks/paymentConsent.ts",
    from: "!Duration.isFinite(lifetime) || !Duration.isPositive(lifetime)",
    to: "!Duration.isFinite(lifetime)",
    tests: [unit("banks/OpenBankingUk", "At the start, the adapter refuses")]
  },
  {
    rule: "Alpaca: a switch that is no account turns no fence on",
    file: "src/banks/Alpaca.ts",
    from: "if (account !== undefined && !/^(?=.*[0-9])[A-Z0-9]{6,32}$/u.test(account)) {",
    to: "if (account === \"off\") {",
    tests: [unit("banks/Fences", "is refused at the start with")]
  },
  {
    rule: "Alpaca: the ledger refuses an order with the shape of a fence",
    file: "src/banks/Alpaca.ts",
    from: "Schema.makeFilter((order) => !isUnfillable(order), {",
    to: "Schema.makeFilter((order) => order.qty !== \"\", {",
    tests: [unit("banks/Alpaca")]
  },
  {
    rule: "no log, span or error of a worker quotes a request to a bank",
    file: "src/http/RequestFailure.ts",
    from: "const kind = isClientError ? error.reason._tag :",
    to: "const kind = isClientError ? error.message :",
    tests: [unit("banks/Secrets")]
  },
  {
    rule: "no span has the token that a bank gave the gateway",
    file: "src/oauth/ClientAuthentication.ts",
    from: "const token = Redacted.make(access_token)",
    to: "const token = Redacted.make(access_token)\n    yield* Effect.annotateCurrentSpan({ access_token })",
    tests: [unit("banks/Secrets")]
  },
  {
    rule: "a person who asked before the last fence ended records no failure",
    file: "src/domain/operators/validateAskedAt.ts",
    from: "isFailure && fencing_until !== null && at < fencing_until + tolerance",
    to: "isFailure && fencing_until !== null && at < tolerance",
    tests: [unit("banks/Fences", "A person who asks the bank between fences")]
  },
  {
    rule: "a status read asks caches for the present state",
    file: "src/submission/http/HttpRequest.ts",
    from: "acceptJson, freshState, headers",
    to: "acceptJson, headers",
    tests: [unit("submission/http/HttpProvider", "A status read")]
  },
  {
    rule: "Open Banking UK: a documented error of the bank is no mistake of the adapter",
    file: "src/banks/OpenBankingUk.ts",
    from: ", 500: HttpProvider.undecided",
    to: "",
    tests: [unit("banks/OpenBankingUk")]
  }
]
