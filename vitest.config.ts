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

// Unit and property tests share nothing with the outside; the others share one Postgres and one Redis.
export default defineConfig({
  test: {
    // Many wait for time to pass or for another program.
    maxWorkers: 3,
    projects: [
      { test: { name: 'unit', include: ['test/unit/**/*.test.ts'], execArgv } },
      {
        test: { name: 'property', include: ['test/property/**/*.test.ts'], testTimeout: 120_000, execArgv },
      },
      {
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          testTimeout: 60_000,
          ...services,
        },
      },
      { test: { name: 'e2e', include: ['test/e2e/**/*.test.ts'], testTimeout: 120_000, ...services } },
      { test: { name: 'browser', include: ['test/browser/**/*.test.ts'], testTimeout: 60_000, ...services } },
    ],
  },
})
