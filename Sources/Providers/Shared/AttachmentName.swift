/// The name in `Content-Disposition: attachment; filename=NAME`, for stores whose URLs can carry nothing else of a header.
enum AttachmentName {
    /// nil where the value says anything else. A quoted name has no escapes in it. RFC 6266, section 4.1
    static func parse(_ value: String) -> String? {
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
