// Settings that suffice, and what is wrong with others.

import { openDynamicSettings } from '../../src/config/dynamic-settings.ts'
import { ConfigError, type Environment } from '../../src/config/environment.ts'
import { loadConfig } from '../../src/config/load.ts'
import { openReader } from '../../src/config/reader.ts'

export const complete = {
  ASSIGNMENT_BASE_URL: 'https://assignments.example/base/',
  AUTH_URL: 'https://identity.example',
  CLIENT_GUID: '6f1c2a52-0d3b-4c58-9f0e-3a1d2c4b5e6f',
  SUBJECT_ID: 'integration',
  API_KEY: 'a key of the tests',
}

/** Those that may be changed while workers run. */
export const dynamicIn = (environment: Environment = {}) =>
  openDynamicSettings(environment, openReader(environment))

export const problemsOf = (environment: Record<string, string>): string => {
  try {
    loadConfig(environment)
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
  return ''
}
