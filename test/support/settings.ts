// Settings that suffice, and what is wrong with others.

import { ConfigError } from '../../src/config/environment.ts'
import { loadConfig } from '../../src/config/load.ts'

export const complete = {
  ASSIGNMENT_BASE_URL: 'https://assignments.example/base/',
  AUTH_URL: 'https://identity.example',
  CLIENT_GUID: '6f1c2a52-0d3b-4c58-9f0e-3a1d2c4b5e6f',
  SUBJECT_ID: 'integration',
  API_KEY: 'a key of the tests',
}

export const problemsOf = (environment: Record<string, string>): string => {
  try {
    loadConfig(environment)
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
  return ''
}
