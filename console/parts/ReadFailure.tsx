import { Unreachable } from "../data/request.ts"

/** Why data could not be read, with another attempt. The banner tells of a lost connection, so old data needs no further notice. */
export const ReadFailure = ({ error, hasData, retry }: {
  readonly error: Error
  readonly hasData: boolean
  readonly retry: () => void
}) =>
  hasData && error instanceof Unreachable ? null : (
    <div class="failure" role="alert">
      <div>
        <strong>{hasData ? "What you see could not be read again." : "This could not be read."}</strong>
        <p>{error.message}</p>
      </div>
      <button type="button" onClick={retry}>Try again</button>
    </div>
  )
