import FileSystem
import ObjectStorage

/// A header to set or remove, as the command line has it: `Name: value`.
struct HeaderChange: Sendable {
    private enum Header: Sendable {
        case standard(StoredHeader)
        /// Metadata, under its name at the store.
        case metadata(String)
    }

    private let header: Header
    private let value: String?
    /// As the command line has it.
    let text: String

    /// What stands before the name of metadata in the headers of some store.
    private static let prefixes = ["x-amz-meta-", "x-oss-meta-", "x-cos-meta-", "x-qn-meta-", "x-object-meta-"]

    init(_ text: String) throws(CommandError) {
        guard let colon = text.firstIndex(of: ":"), let header = try Self.header(text[..<colon].lowercased(), in: text)
        else {
            throw CommandError(
                "--header \(text) is not a stored header; write one of "
                    + "\(StoredHeader.allCases.map(\.rawValue).joined(separator: ", ")) or x-amz-meta-NAME, a colon and its value"
            )
        }
        var value = text[text.index(after: colon)...].drop { $0 == " " }
        while value.last == " " { value.removeLast() }
        guard value.isEmpty || StoredHeader.canCarry(String(value)) else {
            throw CommandError("--header \(text): a header can have printable ASCII only")
        }
        (self.header, self.value, self.text) = (header, value.isEmpty ? nil : String(value), text)
    }

    private static func header(_ name: String, in text: String) throws(CommandError) -> Header? {
        if let standard = StoredHeader(rawValue: name) { return .standard(standard) }
        guard let prefix = prefixes.first(where: { name.hasPrefix($0) }),
            let metadata = UserMetadataName(UserMetadataName.prefix + name.dropFirst(prefix.count))
        else { return nil }
        guard metadata.isValid else {
            throw CommandError(
                "--header \(text): names of metadata are limited to 128 letters, digits, dashes, dots and underscores")
        }
        guard !metadata.isOurs else {
            throw CommandError("--header \(text): pailfs keeps attributes of the file in the metadata \(metadata.key)")
        }
        return .metadata(metadata.key)
    }

    func apply(to metadata: inout ObjectMetadata) {
        switch header {
        case .standard(let header): metadata[header] = value
        case .metadata(let name): metadata.user[name] = value
        }
    }
}
