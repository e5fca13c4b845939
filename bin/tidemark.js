#!/usr/bin/env -S node --max-semi-space-size=16
// Starts the program with little room for young garbage, without which a busy run takes 100 MB more (V8 hears of it only at the
// start), or says which Node it needs: older ones cannot even read the TypeScript to complain about it.
const major = Number(process.versions.node.split('.')[0])
if (major < 24) {
  process.stderr.write(
    `tidemark needs Node 24 or newer; this is ${process.version}. In a checkout, \`npx tidemark\` and the npm scripts bring their own.\n`,
  )
  process.exit(2)
}
// Most of the time to start is compiling; where the cache cannot be kept, Node goes on without.
const { enableCompileCache, registerHooks } = await import('node:module')
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
await import('../src/main.ts')
