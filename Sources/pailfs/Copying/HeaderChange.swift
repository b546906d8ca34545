import FileSystem
import ObjectStorage

/// A header to set or remove, as the command line has it: `Name: value`.
struct HeaderChange: Sendable {
    private let header: ObjectHeader
    private let value: String?
    /// As the command line has it.
    let text: String

    init(_ text: String) throws(CommandError) {
        guard let colon = text.firstIndex(of: ":"), let header = ObjectHeader(text[..<colon]) else {
            throw CommandError(
                "--header \(text) is not a stored header; write one of "
                    + "\(StoredHeader.allCases.map(\.rawValue).joined(separator: ", ")) or x-amz-meta-NAME, a colon and its value"
            )
        }
        if case .metadata(let name) = header { try Self.requireFree(name, in: text) }
        let value = text[text.index(after: colon)...].withoutOuterSpaces
        guard value.isEmpty || StoredHeader.canCarry(value) else {
            throw CommandError("--header \(text): a header can have printable ASCII only")
        }
        (self.header, self.value, self.text) = (header, value.isEmpty ? nil : value, text)
    }

    /// Throws for metadata that not every store takes, or that pailfs writes itself.
    private static func requireFree(_ name: String, in text: String) throws(CommandError) {
        guard let metadata = UserMetadataName(UserMetadataName.prefix + name), metadata.isValid else {
            throw CommandError(
                "--header \(text): names of metadata are limited to 128 letters, digits, dashes, dots and underscores")
        }
        guard !metadata.isOurs else {
            throw CommandError("--header \(text): pailfs keeps attributes of the file in the metadata \(metadata.key)")
        }
    }

    func apply(to metadata: inout ObjectMetadata) { metadata[header] = value }
}
