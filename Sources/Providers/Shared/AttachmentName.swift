import ObjectStorage

/// The name in `Content-Disposition: attachment; filename=NAME`, for stores whose URLs can set nothing else of the answer's
/// headers.
enum AttachmentName {
    /// The one header that such a URL can set; nil where the request sets none. Throws `.notSupported` for any other.
    static func of(_ request: PresignRequest) throws(ObjectStoreError) -> String? {
        guard let (header, value) = request.overrides.first else { return nil }
        guard request.overrides.count == 1, header == .contentDisposition, let name = parse(value) else {
            throw .lacking(
                .presign, request.key,
                "other headers in the answer than content-disposition: attachment; filename=NAME")
        }
        return name
    }

    /// nil for any other value. A quoted name may not contain escapes. RFC 6266, section 4.1
    private static func parse(_ value: String) -> String? {
        let parts = value.split(separator: ";", maxSplits: 1).map { trimmed($0) }
        guard parts.count == 2, parts[0].lowercased() == "attachment", parts[1].lowercased().hasPrefix("filename=")
        else {
            return nil
        }
        var name = parts[1].dropFirst("filename=".count)
        if name.count >= 2, name.hasPrefix("\""), name.hasSuffix("\"") { name = name.dropFirst().dropLast() }
        return name.isEmpty || name.contains { "\";\\".contains($0) } ? nil : String(name)
    }

    private static func trimmed(_ text: Substring) -> String { text.split(separator: " ").joined(separator: " ") }
}
