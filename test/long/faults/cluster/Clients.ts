/** The clients of a run: they pay, read, list, follow the change feed, and have grants revoked. Each does little at a time. */
import { createHash } from "node:crypto"
import { expectSoon, monotonic, sleep } from "../kit/Clock.ts"
import { type Dice, makeDice } from "../kit/Dice.ts"
import { type Exchange, isLimited, isSuccess, type Told } from "./History.ts"
import { ports } from "./Plan.ts"

interface Grant {
  readonly id: string
  readonly token: string
}

type Request = Pick<Exchange, "kind" | "port"> & Partial<Pick<Exchange, "key" | "id" | "grant">>

interface Sending {
  readonly request: Request
  readonly path: string
  readonly token?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: object
}

const problemOf = (error: unknown): string => {
  const { cause, message, name } = error as Error
  return name === "TimeoutError" ? "timeout" : String((cause as NodeJS.ErrnoException | undefined)?.code ?? message)
}

/** The operations in an answer: one, or a page of them. */
const operationsIn = (body: unknown): ReadonlyArray<Told> => {
  const operations = (body as { operations?: ReadonlyArray<Told> } | null)?.operations ?? [body as Told]
  return operations.filter((operation) => operation?.revision !== undefined).map((operation) => ({
    id: operation.id,
    revision: operation.revision,
    state: operation.state,
    under_review: operation.under_review,
    body: createHash("sha256").update(JSON.stringify(operation)).digest("base64url").slice(0, 12)
  }))
}

/** Milliseconds between requests of one loop. */
const pace = { pay: 400, read: 150, list: 900, feed: 200, revoke: 1500, revoked: 300, spend: 2500 }

/** Payments that the limits of a grant permit, and those that are asked for at once. */
const spending = { budget: 5, asked: 8 }

/** Grants that wait for their revocation, at most. */
const guestsAtATime = 5

/** Acceptances whose answer is open, at most. */
const mostOpen = 12

export class Clients {
  /** When each kind of request last succeeded. */
  readonly lastSuccess = new Map<Exchange["kind"], number>()
  private readonly write: (exchange: Exchange) => void
  private readonly dice: Dice
  private readonly seed: string
  private readonly recent: Array<string> = []
  /** Every operation that an answer told. */
  private readonly known = new Set<string>()
  private readonly acknowledged: Array<string> = []
  /** Grants that will be revoked. */
  private readonly guests: Array<Grant> = []
  private readonly revoked: Array<Grant> = []
  private grant: Grant | null = null
  private keys = 0
  private open = 0
  private isRunning = true
  private isPaying = true
  private loops: ReadonlyArray<Promise<void>> = []

  constructor(options: { readonly seed: string; readonly write: (exchange: Exchange) => void }) {
    this.seed = options.seed
    this.write = options.write
    this.dice = makeDice(options.seed, "clients")
  }

  async start(): Promise<void> {
    this.grant = await expectSoon(30, "a grant is issued", () => this.issue())
    this.loops = [
      this.every(pace.pay, () => this.payNext(), () => this.isPaying),
      ...ports.gateways.flatMap((port) => [
        this.every(pace.read, () => this.readOne(port)),
        this.every(pace.list, () => this.list(port))
      ]),
      this.follow(),
      this.every(pace.revoke, () => this.revokeOne()),
      this.every(pace.revoked, () => this.readRevoked()),
      this.every(pace.spend, () => this.spend(), () => this.isPaying)
    ]
  }

  /** Resolves when the last acceptance has its answer, or after this many seconds; the other loops continue. */
  async stopPaying(seconds: number): Promise<void> {
    this.isPaying = false
    const end = monotonic() + seconds * 1000
    while (this.open > 0 && monotonic() < end) await sleep(100)
  }

  /** Reads every operation once more, and tries revoked grants, within this many seconds. */
  async sweep(seconds: number): Promise<void> {
    const end = monotonic() + seconds * 1000
    for (const id of this.known) {
      while (!await this.read(this.any(ports.gateways), id) && monotonic() < end) await sleep(500)
    }
    for (const grant of this.revoked.slice(-50)) if (monotonic() < end) await this.readAs(grant)
  }

  async stop(): Promise<void> {
    this.isRunning = false
    await Promise.all(this.loops)
  }

  private any<A>(all: ReadonlyArray<A>): A {
    return all[this.dice.below(all.length)]!
  }

  private async every(milliseconds: number, act: () => Promise<unknown> | void, isOn = () => true): Promise<void> {
    while (this.isRunning) {
      if (isOn()) await act()
      await sleep(milliseconds * this.dice.between(0.5, 1.5))
    }
  }

  private async send({ body, headers, path, request, token }: Sending): Promise<{ exchange: Exchange; body: unknown }> {
    const from = monotonic()
    const answer = await fetch(`http://127.0.0.1:${request.port}${path}`, {
      ...body !== undefined && { method: "POST", body: JSON.stringify(body) },
      headers: {
        ...token !== undefined && { authorization: `Bearer ${token}` },
        ...body !== undefined && { "content-type": "application/json" },
        ...headers
      },
      signal: AbortSignal.timeout(8000)
    }).then(
      async (response) => ({ status: response.status, body: await response.json().catch(() => null) as unknown }),
      (error: unknown) => ({ status: null, body: null, problem: problemOf(error) })
    )
    const problem = "problem" in answer ? answer.problem : (answer.body as { code?: string } | null)?.code
    const exchange: Exchange = {
      ...request,
      from,
      to: monotonic(),
      status: answer.status,
      ...typeof problem === "string" && { problem },
      told: answer.status !== null && answer.status < 300 ? operationsIn(answer.body) : []
    }
    this.write(exchange)
    if (isSuccess(exchange)) this.learn(exchange)
    return { exchange, body: answer.body }
  }

  private learn({ kind, to, told }: Exchange): void {
    this.lastSuccess.set(kind, to)
    for (const { id } of told) {
      if (this.known.has(id)) continue
      this.known.add(id)
      this.recent.push(id)
      if (this.recent.length > 60) this.recent.shift()
    }
  }

  /** Begins a payment, unless too many have no answer. Sometimes repeats one that was acknowledged. */
  private payNext(): void {
    if (this.open >= mostOpen) return
    const isRepeat = this.acknowledged.length > 0 && this.dice.roll() < 0.1
    void this.payAs(this.grant!, isRepeat ? this.any(this.acknowledged.slice(-40)) : `${this.seed}-${++this.keys}`)
  }

  /** Asks a new grant for more at once than its limits permit, and resolves when all is answered. */
  private async spend(): Promise<void> {
    const grant = await this.issue(spending.budget)
    if (grant === null) return
    await Promise.all(Array.from({ length: spending.asked }, () => this.payAs(grant, `${this.seed}-${++this.keys}`)))
  }

  /** Repeats the request with its key, at both endpoints, until it is answered. */
  private async payAs(grant: Grant, key: string): Promise<void> {
    this.open++
    for (let attempt = 1; this.isRunning; attempt++) {
      const { exchange } = await this.send({
        request: { kind: "accept", port: this.any(ports.payments), key, grant: grant.id },
        path: "/v1/payments",
        token: grant.token,
        headers: { "idempotency-key": `"${key}"` },
        body: { amount: "1.00", currency: "EUR", creditor: { name: "Landlord", iban: "DE89370400440532013000" } }
      })
      if (isLimited(exchange)) break
      if (isSuccess(exchange)) {
        if (grant === this.grant) this.acknowledged.push(key)
        break
      }
      await sleep(Math.min(attempt, 4) * 400)
    }
    this.open--
  }

  /** Resolves to whether the answer decides: the operation, or that there is none. */
  private async read(port: number, id: string): Promise<boolean> {
    const { grant } = this
    const request: Request = { kind: "read", port, id, grant: grant!.id }
    const { exchange } = await this.send({ request, path: `/v1/operations/${id}`, token: grant!.token })
    return isSuccess(exchange) || exchange.status === 404
  }

  private async readOne(port: number): Promise<void> {
    if (this.recent.length > 0) await this.read(port, this.any(this.recent))
  }

  private async list(port: number): Promise<void> {
    const { grant } = this
    const request: Request = { kind: "list", port, grant: grant!.id }
    await this.send({ request, path: "/v1/operations?page_size=30", token: grant!.token })
  }

  private async follow(): Promise<void> {
    let after: string | null = null
    while (this.isRunning) {
      const { grant } = this
      const { body, exchange } = await this.send({
        request: { kind: "feed", port: this.any(ports.gateways), grant: grant!.id },
        path: `/v1/operations/changes?page_size=100${after === null ? "" : `&after=${after}`}`,
        token: grant!.token,
        headers: { prefer: "wait=1" }
      })
      if (isSuccess(exchange)) after = (body as { next_change_token: string }).next_change_token
      if (exchange.status === 410) after = null
      await sleep(pace.feed)
    }
  }

  private async issue(budget: number | null = null): Promise<Grant | null> {
    const from = monotonic()
    const port = this.any(ports.payments)
    const answer = await fetch(`http://127.0.0.1:${port}/test/grants`, {
      method: "POST",
      body: JSON.stringify({ budget }),
      headers: { "content-type": "application/json" },
      signal: AbortSignal.timeout(8000)
    }).catch(() => null)
    const body = answer?.status === 201 ? await answer.json() as { id: string; access_token: string } : null
    const status = answer?.status ?? null
    this.write({
      kind: "issue",
      port,
      from,
      to: monotonic(),
      status,
      told: [],
      ...body !== null && { grant: body.id },
      ...budget !== null && { budget }
    })
    return body === null ? null : { id: body.id, token: body.access_token }
  }

  /** Issues a grant, and revokes the oldest until that is acknowledged. So a server that is late knows the grant, and not its end. */
  private async revokeOne(): Promise<void> {
    const issued = await this.issue()
    if (issued !== null) this.guests.push(issued)
    if (this.guests.length <= guestsAtATime) return
    const grant = this.guests.shift()!
    for (const port of ports.gateways) await this.readAs(grant, port)
    while (this.isRunning) {
      const request: Request = { kind: "revoke", port: this.any(ports.payments), grant: grant.id }
      const { exchange } = await this.send({ request, path: "/test/revocations", body: { id: grant.id } })
      if (isSuccess(exchange)) break
      await sleep(500)
    }
    this.revoked.push(grant)
  }

  private async readAs({ id, token }: Grant, port: number = this.any(ports.gateways)): Promise<void> {
    const request: Request = { kind: "list", port, grant: id }
    await this.send({ request, path: "/v1/operations?page_size=1", token })
  }

  private async readRevoked(): Promise<void> {
    const grant = this.any(this.revoked.slice(-6))
    if (grant !== undefined) await this.readAs(grant)
  }
}
