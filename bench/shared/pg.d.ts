/** The types of `pg` that the peers use; the package has none. */
declare module "pg" {
  interface Query {
    readonly name?: string
    readonly text: string
    readonly values: ReadonlyArray<unknown>
  }

  type Options = {
    readonly host: string
    readonly port: number
    readonly user: string
    readonly database: string
  } | { readonly connectionString: string }

  interface Result<Row> {
    readonly rows: ReadonlyArray<Row>
  }

  export class Pool {
    constructor(options: Options & { readonly max: number })
    query<Row>(query: Query): Promise<Result<Row>>
    on(event: "error", listener: (error: Error) => void): this
    end(): Promise<void>
  }

  export class Client {
    constructor(options: Options)
    connect(): Promise<void>
    query<Row>(query: Query | string): Promise<Result<Row>>
    on(event: "notification", listener: (message: { readonly payload?: string }) => void): this
  }
}
