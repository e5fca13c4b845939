// What `npm start` and `npm run demo` run, on every system. Where a file can be run by its first line, this process becomes
// tidemark.js, whose first line says what the C library and V8 have to hear at the start. Elsewhere, as on Windows, it goes on without.
import { accessSync, constants } from 'node:fs'
import { fileURLToPath } from 'node:url'

const program = new URL('tidemark.js', import.meta.url)

function canBeRun(path) {
  try {
    accessSync(path, constants.X_OK)
    return process.platform !== 'win32' && process.execve !== undefined
  } catch {
    return false
  }
}

const path = fileURLToPath(program)
if (canBeRun(path)) process.execve(path, [path, ...process.argv.slice(2)])
await import(program.href)
