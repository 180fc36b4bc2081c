import { to } from "../data/route.ts"
import { usePageTitle } from "./usePageTitle.ts"

/** For an address that names no page. */
export const NotFoundPage = () => {
  usePageTitle("No such page")
  return (
    <div class="notice">
      <h1>There is no such page</h1>
      <p>
        <a class="button" href={to([])}>Go to the overview</a>
      </p>
    </div>
  )
}
