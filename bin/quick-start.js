// Most of the time to start is compiling and finding files. Imported before everything else, by the program and by its tests.
import { enableCompileCache, registerHooks } from 'node:module'

// Where the cache cannot be kept, Node goes on without.
enableCompileCache?.()

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
