// The variables with which the program reads a stand-in into a test database.

import type { Environment } from '../../src/config/load.ts'
import type { Simulator } from '../../src/simulator/simulator.ts'

export const environmentFor = (
  simulator: Simulator,
  database: { readonly url: string; readonly quickUrl?: string } | null,
  more: Environment = {},
): Environment => ({
  ASSIGNMENT_BASE_URL: simulator.assignmentUrl,
  TRACKING_BASE_URL: simulator.trackingUrl,
  AUTH_URL: simulator.authUrl,
  CLIENT_GUID: simulator.credentials.clientGuid,
  SUBJECT_ID: simulator.credentials.subjectId,
  API_KEY: simulator.credentials.apiKey,
  SOURCE_TIMEZONE: simulator.behaviour.timeZone,
  ...(database && { DATABASE_URL: database.quickUrl ?? database.url }),
  // Tests count requests and columns; those of descriptions turn it on.
  CONTRACT: 'off',
  LOG_LEVEL: 'error',
  ...more,
})
