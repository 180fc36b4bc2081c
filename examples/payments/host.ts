/**
 * A host for agents in small: it calls the tool `pay` of the payments example over MCP, and asks its user at the terminal first.
 *
 *     GATEWAY_TOKEN=fingw_… npm exec -- node examples/payments/host.ts
 *
 * It pays at `http://127.0.0.1:3002`, or at GATEWAY_URL, and needs `@modelcontextprotocol/client`.
 */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client"
import { createInterface } from "node:readline/promises"
import { inspect } from "node:util"

const terminal = createInterface({ input: process.stdin, output: process.stdout })
const client = new Client(
  { name: "my-host", version: "1.0.0" },
  { versionNegotiation: { mode: "auto" }, capabilities: { elicitation: { form: {} } } }
)
client.setRequestHandler("elicitation/create", async ({ params }) => {
  const reply = await terminal.question(`${params.message}\n\nEnter yes to confirm: `)
  return reply === "yes" ? { action: "accept", content: { confirm: true } } : { action: "decline" }
})
const { GATEWAY_TOKEN, GATEWAY_URL = "http://127.0.0.1:3002" } = process.env
const headers = { Authorization: `Bearer ${GATEWAY_TOKEN}` }
await client.connect(new StreamableHTTPClientTransport(new URL(`${GATEWAY_URL}/mcp`), { requestInit: { headers } }))

const creditor = { name: "Landlord", iban: "DE89370400440532013000" }
const payment = { amount: "750.00", currency: "EUR", creditor, idempotency_key: "rent-of-june" }
// With 2025-11-25 the call stays open while the person thinks.
const { content } = await client.callTool({ name: "pay", arguments: payment }, { timeout: 330_000 })
const [text] = content
process.stdout.write(`${inspect(text?.type === "text" ? JSON.parse(text.text) : text)}\n`)
await client.close()
terminal.close()
