/**
 * The tool of language-model agents at `/mcp`, beside those that read operations. It accepts the same payments as the endpoint.
 */
import { mutationTool } from "financial-agents-gateway/server/McpRoutes"
import { Payment, paymentsWrite, paymentTerms } from "./Api.ts"

/** The tool `pay`. A person sees the question before the payment is accepted. */
export const PaymentTools = mutationTool({
  name: "pay",
  title: "Pay",
  description: "Requests a payment in euros from the account of the user.",
  type: "payment",
  scope: paymentsWrite,
  payload: Payment,
  terms: paymentTerms,
  question: ({ amount, creditor, currency }) => ({
    question: "Do you want to make this payment?",
    facts: { Amount: `${amount} ${currency}`, Creditor: creditor.name, IBAN: creditor.iban }
  })
})
