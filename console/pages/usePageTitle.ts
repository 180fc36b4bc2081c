import { useEffect } from "preact/hooks"

/** Names the page in the tab of the browser. */
export const usePageTitle = (title: string): void =>
  useEffect(() => {
    document.title = `${title} · Gateway console`
  }, [title])
