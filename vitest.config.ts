import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const execArgv = ['--import', fileURLToPath(new URL('bin/quick-start.js', import.meta.url))]
const shared = {
  // Files in one process share what it has loaded, and the secrets that it knows: to load it anew for each takes long.
  isolate: false,
  execArgv,
}
const services = { ...shared, globalSetup: ['test/support/services.ts'], hookTimeout: 60_000 }

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
          ...shared,
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
