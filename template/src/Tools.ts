/**
 * The tool `transfer` for language-model agents at `/mcp`, beside those that read operations. It accepts the same transfers as the
 * endpoint, and a person confirms each of them.
 */
import { mutationTool } from "financial-agents-gateway/server/McpRoutes"
import { transfersWrite } from "./Api.ts"
import { Transfer, transferTerms } from "./Transfer.ts"

export const TransferTools = mutationTool({
  name: "transfer",
  title: "Transfer money",
  description: "Requests a transfer from the account of the user.",
  type: "transfer",
  scope: transfersWrite,
  payload: Transfer,
  terms: transferTerms,
  question: ({ amount, currency, iban }) => ({
    question: "Do you want to make this transfer?",
    facts: { Amount: `${amount} ${currency}`, IBAN: iban }
  })
})
