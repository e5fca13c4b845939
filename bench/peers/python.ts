// A virtual environment of its own for the other tools, in an ignored folder: nothing of it is needed to build or to test.

import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const requirements = fileURLToPath(new URL('./requirements.txt', import.meta.url))

/** With what `requirements.txt` names in it. Returns the folder of its programs; an error of one line says what is missing. */
export async function preparePython(directory: string, python = 'python3'): Promise<string> {
  const programs = join(directory, 'bin')
  await run(python, ['-m', 'venv', directory]).catch(async (cause) => {
    await rm(directory, { recursive: true, force: true })
    throw new Error('bench:peers needs python3 with its venv module (Debian: apt install python3-venv)', {
      cause,
    })
  })
  const install = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '-r', requirements]
  await run(join(programs, 'python'), install).catch((cause) => {
    throw new Error(`bench:peers needs PyPI to install dlt and singer-sdk: ${lastLine(cause.stderr)}`, {
      cause,
    })
  })
  return programs
}

const lastLine = (text: string): string => text.trimEnd().split('\n').at(-1) ?? ''
