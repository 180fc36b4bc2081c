/** As much of `pg` as the peer uses; the package brings no types. */
declare module "pg" {
  interface Query {
    readonly name?: string
    readonly text: string
    readonly values: ReadonlyArray<unknown>
  }

  export class Pool {
    constructor(options: {
      readonly host: string
      readonly port: number
      readonly user: string
      readonly database: string
      readonly max: number
    })
    query<Row>(query: Query): Promise<{ readonly rows: ReadonlyArray<Row> }>
  }
}
