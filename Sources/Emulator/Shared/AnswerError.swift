/// How one provider spells the refusals that every dialect has.
package protocol ErrorSpelling {
    /// What the storage refused.
    static func spell(_ error: StorageError) -> AnswerError<Self>
    /// The client went away in the middle of the body, or sent less than it announced.
    static var incompleteBody: AnswerError<Self> { get }
    /// A document of more bytes than are read.
    static var documentTooLarge: AnswerError<Self> { get }
    /// A document that is no XML, or not the XML expected.
    static var malformedXML: AnswerError<Self> { get }
    /// A write without `Content-Length`.
    static var missingLength: AnswerError<Self> { get }
    /// A body larger than one request may carry.
    static var entityTooLarge: AnswerError<Self> { get }
    /// A `Content-MD5` that is no MD5.
    static var invalidDigest: AnswerError<Self> { get }
    /// A body whose bytes are not those of its digest.
    static var badDigest: AnswerError<Self> { get }
}

/// An error answer: HTTP status, code, sentence, and elements of its document beyond those. One type for each provider,
/// so that no refusal is spelled in another's words.
package struct AnswerError<Spelling: ErrorSpelling>: Error, Sendable {
    package let status: Int
    package let code: String
    package let message: String
    package var elements: [Field] = []
    package var headers: [Field] = []

    init(_ status: Int, _ code: String, _ message: String, elements: [Field] = [], headers: [Field] = []) {
        (self.status, self.code, self.message) = (status, code, message)
        (self.elements, self.headers) = (elements, headers)
    }

    init(_ error: StorageError) { self = Spelling.spell(error) }

    /// Used where the storage is called: its errors become answers.
    static func storing<Result>(_ body: () throws(StorageError) -> Result) throws(AnswerError) -> Result {
        do { return try body() } catch { throw AnswerError(error) }
    }
}

extension AnswerError {
    static var incompleteBody: AnswerError { Spelling.incompleteBody }
    static var documentTooLarge: AnswerError { Spelling.documentTooLarge }
    static var malformedXML: AnswerError { Spelling.malformedXML }
    static var missingLength: AnswerError { Spelling.missingLength }
    static var entityTooLarge: AnswerError { Spelling.entityTooLarge }
    static var invalidDigest: AnswerError { Spelling.invalidDigest }
    static var badDigest: AnswerError { Spelling.badDigest }
}
