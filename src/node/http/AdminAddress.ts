/**
 * The address of the admin listener: `ADMIN_PORT` and `ADMIN_HOST`.
 */
import { addressOf } from "./ListenAddress.ts"

/** Where the admin listener of a process listens. */
export interface AdminAddress {
  readonly host: string
  readonly port: number
}

/** The URL of the admin listener, for the log. */
export const adminUrl = (admin: AdminAddress | null): { readonly admin_url?: string } =>
  admin === null ? {} : { admin_url: addressOf(admin.host, admin.port) }
