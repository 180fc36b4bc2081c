/** Host names of this machine, as `URL` writes them. To them alone, a secret may go by `http` without TLS. */
export const loopbackHosts: ReadonlySet<string> = new Set(["127.0.0.1", "[::1]", "localhost"])
