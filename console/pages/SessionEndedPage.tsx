import { usePageTitle } from "./usePageTitle.ts"

/** Takes the place of the page when the server knows no session of this browser: a session ends by time, or with its process. */
export const SessionEndedPage = () => {
  usePageTitle("Signed out")
  return (
    <div class="notice" role="alert">
      <h1>Your session has ended</h1>
      <p>
        A session ends after an hour without a request, after twelve hours, or when the console's process stops. Nothing
        that you confirmed is lost: each action was recorded when it was done.
      </p>
      <p>
        <button type="button" class="primary" onClick={() => location.reload()}>Sign in</button>
      </p>
    </div>
  )
}
