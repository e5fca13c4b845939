#!/usr/bin/env -S MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=262144 MALLOC_TRIM_THRESHOLD_=262144 node --max-semi-space-size=8
// Starts the program with little room for young garbage, without which a busy run takes 100 MB more. With two pools of memory instead of
// one for each thread, and long buffers apart from them, so that what is not needed goes back to the system: 80 MB less. V8 and the C
// library hear of it only at the start. Or says which Node it needs: older ones cannot even read the TypeScript to complain about it.
import { existsSync } from 'node:fs'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < 24 || (major === 24 && minor < 5)) {
  process.stderr.write(
    `tidemark needs Node 24.5 or newer; this is ${process.version}. In a checkout, \`npx tidemark\` and the npm scripts bring their own.\n`,
  )
  process.exit(2)
}
await import('./quick-start.js')
// The sources in a checkout; in a package what was built of them.
const places = ['../src/main.ts', '../src/main.js', '../dist/src/main.js']
const program = places.map((path) => new URL(path, import.meta.url)).find((url) => existsSync(url))
await import(program?.href ?? places[0])
