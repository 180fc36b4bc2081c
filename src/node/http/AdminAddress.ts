/**
 * The address of the admin listener: `ADMIN_PORT` and `ADMIN_HOST`.
 */
import * as Effect from "effect/Effect"
import { InvalidSetting } from "../settings/InvalidSetting.ts"
import { addressOf } from "./ListenAddress.ts"

/** Where the admin listener of a process listens. */
export interface AdminAddress {
  readonly host: string
  readonly port: number
}

/** The URL of the admin listener, for the log. */
export const adminUrl = (admin: AdminAddress | null): { readonly admin_url?: string } =>
  admin === null ? {} : { admin_url: addressOf(admin.host, admin.port) }

/** Fails if the admin listener would take the port of the public one. */
export const checkAdminPort = (admin: AdminAddress | null, port: number): Effect.Effect<void, InvalidSetting> =>
  admin?.port === port
    ? Effect.fail(
      new InvalidSetting({ message: "ADMIN_PORT must not be PORT: the admin listener takes a port of its own" })
    )
    : Effect.void
