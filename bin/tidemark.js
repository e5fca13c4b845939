#!/usr/bin/env -S MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=262144 MALLOC_TRIM_THRESHOLD_=262144 node --max-semi-space-size=8
// Starts the program so that it gives back what it no longer needs; V8 and the C library hear of it only at the start. Little room for
// young garbage, without which a busy run takes 100 MB more. Two pools of memory instead of one for each thread, and long buffers apart
// from them: 80 MB less. Or says which Node it needs: older ones cannot even read the TypeScript to complain about it.
const major = Number(process.versions.node.split('.')[0])
if (major < 24) {
  process.stderr.write(
    `tidemark needs Node 24 or newer; this is ${process.version}. In a checkout, \`npx tidemark\` and the npm scripts bring their own.\n`,
  )
  process.exit(2)
}
await import('./quick-start.js')
await import('../src/main.ts')
