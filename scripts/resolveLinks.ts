import * as fs from "node:fs"
import * as path from "node:path"

/** The URL of a file of the repository at the tag of a version, or null if the manifest names no repository. */
const urlOf = (repository: string | undefined, version: string): string | null =>
  repository === undefined
    ? null
    : `${repository.replace("git+", "").slice(0, -".git".length)}/blob/v${version}`

/**
 * Resolves the relative links in a packed Markdown file to files that the package lacks, such as tests. They become links to
 * the repository. Without a repository, only their text remains.
 */
export const resolveLinks = (
  root: string,
  file: string,
  { repository, version }: { readonly repository?: { readonly url: string }; readonly version: string },
  isPacked: (file: string) => boolean = () => true
): string => {
  const url = urlOf(repository?.url, version)
  return fs.readFileSync(path.join(root, file), "utf8").replaceAll(
    /\[([^\]]*)\]\((?!https?:|#)([^)#]+)(#[^)]+)?\)/g,
    (link, text: string, target: string, anchor = "") => {
      const linked = path.join(path.dirname(file), target)
      if (isPacked(linked) && fs.existsSync(path.join(root, linked))) return link
      return url === null ? text : `[${text}](${url}/${linked}${anchor})`
    }
  )
}
