import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

// New objects get more room before they are looked through: a tenth less time for what reads many pages.
const execArgv = [
  '--max-semi-space-size=64',
  '--import',
  fileURLToPath(new URL('bin/quick-start.js', import.meta.url)),
]
const shared = {
  // Files in one process share what it has loaded, and the secrets that it knows: to load it anew for each takes long.
  isolate: false,
  execArgv,
  // What is waited for comes as soon as the machine allows.
  expect: { poll: { timeout: 30_000, interval: 100 } },
}

// Unit and property tests stand alone; the others share one Postgres and one Redis. Projects begin in the order of their names:
// the random worlds, which one processor reads for long, must not be the last.
export default defineConfig({
  test: {
    // Two for each processor of a small machine: most of the time they wait for time to pass or for another program.
    maxWorkers: 4,
    projects: [
      {
        test: {
          name: 'alone',
          include: ['test/{unit,property}/**/*.test.ts'],
          testTimeout: 30_000,
          hookTimeout: 60_000,
          ...shared,
        },
      },
      {
        test: {
          name: 'services',
          include: ['test/{browser,e2e,integration}/**/*.test.ts'],
          globalSetup: ['test/support/services.ts'],
          testTimeout: 120_000,
          hookTimeout: 60_000,
          ...shared,
        },
      },
    ],
  },
})
