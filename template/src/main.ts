/**
 * The process: the endpoint of this application, the endpoints of the gateway, and workers that submit to the bank.
 *
 *     npm start
 *
 * It runs on an embedded PostgreSQL in `.data`, or on the one that DATABASE_URL names. That one needs BANK_URL and BANK_KEY, too.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as AdminListener from "financial-agents-gateway/node/AdminListener"
import * as GatewayApp from "financial-agents-gateway/node/GatewayApp"
import { McpRoutes } from "financial-agents-gateway/server/McpRoutes"
import { TransfersApi } from "./Api.ts"
import { Invitation } from "./Invitation.ts"
import Providers, { bankSettings } from "./Providers.ts"
import { TransfersRoutes } from "./Routes.ts"
import { TransferTools } from "./Tools.ts"

/** The fake bank, unless BANK_URL names another one. Only with the embedded PostgreSQL. */
const FakeBank = Layer.effectDiscard(Effect.flatMap(bankSettings, ({ fake }) => fake?.start ?? Effect.void))

GatewayApp.run({
  api: TransfersApi,
  routes: TransfersRoutes,
  // Without providers, this process only accepts and reads. Run the workers with `npm run work` then.
  providers: Layer.provide(Providers, FakeBank),
  // `/mcp` for language-model agents, and `/metrics` at ADMIN_PORT. An application without them leaves them out.
  agents: McpRoutes(TransferTools),
  admin: AdminListener.layer(),
  started: Invitation
})
