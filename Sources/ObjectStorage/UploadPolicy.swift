/// What a store does with each file that is uploaded, besides storing it.
package struct UploadPolicy: Sendable, Hashable {
    /// A request that the store sends to an application's server once it has the file.
    package struct Callback: Sendable, Hashable {
        /// One URL, or several with semicolons between them.
        package var url: String
        package var host: String?
        /// With the store's variables, and those of `variables` under their names.
        package var body: String
        package var type: String
        /// By name; each name begins with `x:`.
        package var variables: [String: String]

        package init(url: String, host: String? = nil, body: String, type: String, variables: [String: String] = [:]) {
            (self.url, self.host, self.body, self.type, self.variables) = (url, host, body, type, variables)
        }
    }

    package var callback: Callback?
    /// The content types that the store takes, in its own form; nil takes all.
    package var typeLimit: String?
    /// Whether the store finds out the content type.
    package var detectsType = false
    /// Whether no upload replaces an object.
    package var insertsOnly = false

    package init() {}
}

/// How the callback of an upload ended. The object is stored in either case.
package struct CallbackResult: Sendable, Hashable {
    /// Most characters of an answer that are kept.
    private static let longest = 1000

    package let isFailure: Bool
    /// The answer of the application's server, or why there is none.
    package let text: String

    package init(isFailure: Bool, _ text: String) {
        (self.isFailure, self.text) = (isFailure, String(text.prefix(Self.longest)))
    }
}
