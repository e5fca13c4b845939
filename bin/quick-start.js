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

// To know what kind of file each of them is, Node would look for it and for a manifest beside it, and of drizzle's 200 files read that of
// 180 KB each time. What the program imports of its own is there, and of the kind that its name says.
const own = new URL('../src/', import.meta.url).href
registerHooks?.({
  resolve(specifier, context, next) {
    const parent = context.parentURL ?? ''
    if (!specifier.startsWith('./') && !specifier.startsWith('../')) return next(specifier, context)
    if (parent.startsWith(own) && specifier.endsWith('.ts'))
      return { url: new URL(specifier, parent).href, format: 'module-typescript', shortCircuit: true }
    if (parent.includes('/node_modules/drizzle-orm/'))
      return { url: new URL(specifier, parent).href, format: 'module', shortCircuit: true }
    return next(specifier, context)
  },
})
