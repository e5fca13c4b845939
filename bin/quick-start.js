// Most of the time to start is compiling and finding files. Imported before everything else, by the program and by its tests.
import { existsSync, lstatSync, mkdirSync } from 'node:fs'
import { enableCompileCache, registerHooks } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

// Node runs what lies in the cache. Its own place for it is below /tmp, where every user of the machine can put code; so
// the cache lies beside the code itself, in a directory that this user alone can enter. Where there can be none, Node goes on
// without.
const caches = fileURLToPath(new URL('../node_modules/.cache', import.meta.url))
const cache = privateDirectory(caches, `tidemark-${process.getuid?.() ?? 'user'}`)
if (cache !== null) enableCompileCache?.(cache)

/** Null when the directory cannot be made, or somebody else could write in it. */
export function privateDirectory(parent, name) {
  const path = join(parent, name)
  try {
    mkdirSync(parent, { recursive: true })
    if (!existsSync(path)) mkdirSync(path, { mode: 0o700 })
    const found = lstatSync(path)
    const isOurs =
      process.getuid === undefined || (found.uid === process.getuid() && (found.mode & 0o077) === 0)
    return isOurs && found.isDirectory() ? path : null
  } catch {
    return null
  }
}

// To know what kind of file each of drizzle's 200 files is, Node would read its manifest of 180 KB each time: half a second and
// 50 MB more.
registerHooks?.({
  resolve(specifier, context, next) {
    const isNeighbour = specifier.startsWith('./') || specifier.startsWith('../')
    if (!isNeighbour || !context.parentURL?.includes('/node_modules/drizzle-orm/'))
      return next(specifier, context)
    return { url: new URL(specifier, context.parentURL).href, format: 'module', shortCircuit: true }
  },
})
