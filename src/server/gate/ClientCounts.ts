/**
 * How many requests each client has. It keeps an entry for each client with requests, and none for a request.
 */
export class ClientCounts {
  readonly #counts = new Map<string, number>()

  of(client: string): number {
    return this.#counts.get(client) ?? 0
  }

  add(client: string): void {
    this.#counts.set(client, this.of(client) + 1)
  }

  remove(client: string): void {
    const others = this.of(client) - 1
    if (others === 0) this.#counts.delete(client)
    else this.#counts.set(client, others)
  }
}
