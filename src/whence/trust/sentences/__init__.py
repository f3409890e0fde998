"""Can the sentences be believed?"""

from whence.trust.sentences import sentences_finding as sentences_finding
