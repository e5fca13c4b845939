import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const execArgv = ['--import', fileURLToPath(new URL('bin/quick-start.js', import.meta.url))]
// Files in one process share what it has loaded, and the secrets that it knows: loading anew for each file takes a tenth of the
// whole time.
const services = {
  globalSetup: ['test/support/services.ts'],
  hookTimeout: 60_000,
  isolate: false,
  execArgv,
}

// Unit and property tests stand alone; the others share one Postgres and one Redis. Projects begin in the order of their names:
// the random worlds, which one processor reads for long, must not be the last.
export default defineConfig({
  test: {
    // Many wait for time to pass or for another program.
    maxWorkers: 3,
    projects: [
      {
        test: {
          name: 'alone',
          include: ['test/unit/**/*.test.ts', 'test/property/**/*.test.ts'],
          testTimeout: 120_000,
          execArgv,
        },
      },
      { test: { name: 'browser', include: ['test/browser/**/*.test.ts'], testTimeout: 60_000, ...services } },
      { test: { name: 'e2e', include: ['test/e2e/**/*.test.ts'], testTimeout: 120_000, ...services } },
      {
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          testTimeout: 60_000,
          ...services,
        },
      },
    ],
  },
})
